"""How far each part of a variant alone takes the base model from itself, and what keeping the worst would win.

The sensitivity of a part is the mean KL divergence of the base's next-token distributions from those of the base with
this part alone replaced by the variant's weights (Cai et al. 2020, "ZeroQ", arXiv:2001.00281). Not the
reverse, the variant with this part restored: those differences stand on top of what all other parts lose, and a part
that is kept is not restored into the old variant, since the others are calibrated anew without it.

Parts are modules that read the same input. Methods that scale an input's channels scale these together, and engines
that join their matrices want them stored alike. Where a method moved scales into the unquantized weights of a block, as
AWQ does, only the block as a whole computes what the base's does, and is the part.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline import checkpoint, progress, records, store
from pipeline.engines import EngineOptions, misplaced_reason, transformers
from pipeline.metrics import keeping
from pipeline.probes import device
from pipeline.quality_records import FidelityText
from pipeline.sensitivity_records import Group, Proposal, Sensitivity

BASE_DTYPE = {"cpu": "float32"}
"""What the base computes in, where not in the runtime's own type: the rounding of float32 is far below what any part
loses, so the difference is the part's."""
ROW_TOKENS = 128
"""Of each window of the text, from its beginning: several short pieces are more like the whole than a long one is."""
PART_ROWS = 1024
"""Of an identity matrix that passes through a layer at once."""


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    device: str
    compute_dtype: dict[str, str]
    threads: int
    tokens: int
    budget_bytes: int
    known: Sensitivity | None
    """As measured before on the same artifacts and text; None: it is measured now."""


def run(job: Job) -> Proposal:
    """Measure every part, choose those to keep, and measure what would be left.

    Raises:
        RuntimeError: parameters are not on the device asked for.
        ValueError: logits are not finite.
    """
    manifest = checkpoint.read_manifest(store.artifact(job.variant))
    text = records.load(store.FIDELITY_PROMPT, FidelityText)
    on = device.resolve(job.device)
    variant = _load(store.artifact(job.variant), EngineOptions(on, job.compute_dtype[on], job.threads))
    base = _load(store.BASE, EngineOptions(on, BASE_DTYPE.get(on, job.compute_dtype[on]), job.threads))
    compared = Compared(base, rows(text.windows, job.tokens))
    swap = Swap(base, variant, manifest.quantized_modules)
    found = job.known or Sensitivity(
        artifact_sha256=manifest.artifact_sha256,
        base_artifact_sha256=checkpoint.read_manifest(store.BASE).artifact_sha256,
        text_sha256=text.text_sha256,
        tokens=job.tokens,
        positions=compared.positions,
        kld=compared.kld(variant),
        groups=_groups(compared, swap, extra_bytes(store.BASE, store.artifact(job.variant))),
    )
    kept = keeping.choose(found.groups, job.budget_bytes)
    # Nothing is put back from here on, so no second copy of the weights is needed.
    swap.put(name for group in found.groups if group not in kept for name in group.modules)
    kld_kept = compared.kld(base)
    swap.put(name for group in kept for name in group.modules)
    return Proposal(
        sensitivity=found,
        budget_bytes=job.budget_bytes,
        kept=kept,
        kld_kept=kld_kept,
        kld_none_kept=compared.kld(base),
    )


def rows(windows: Sequence[Sequence[int]], tokens: int) -> list[list[int]]:
    """About `tokens` tokens as the beginnings of equally long windows, spread over the text."""
    length = min(ROW_TOKENS, tokens, max(map(len, windows)))
    fitting = [list(window[:length]) for window in windows if len(window) >= length]
    count = min(max(1, tokens // length), len(fitting))
    return [fitting[place * len(fitting) // count] for place in range(count)]


def extra_bytes(base: Path, artifact: Path) -> dict[str, int]:
    """Module → what it takes more in the base's weight files than in the artifact's."""
    theirs, ours = _module_bytes(base), _module_bytes(artifact)
    return {name: size - ours[name] for name, size in theirs.items() if name in ours}


class Compared:
    """A text as the base reads it, to which others are compared."""

    def __init__(self, base: Any, token_rows: Sequence[Sequence[int]]) -> None:
        import torch

        self._rows = torch.tensor(token_rows, device=base.device)
        self._base = [torch.log_softmax(row.float(), -1) for row in self._logits(base)]
        self.positions: int = self._rows.numel()

    def kld(self, model: Any) -> float:
        """Mean KL(base ‖ model) over all positions, nats (as `divergence.compare`, in float32 on the device)."""
        import torch

        parts = [
            torch.nn.functional.kl_div(torch.log_softmax(row.float(), -1), base, log_target=True, reduction="sum")
            for base, row in zip(self._base, self._logits(model), strict=True)
        ]
        found = sum(map(float, parts)) / self.positions
        if not math.isfinite(found):
            raise ValueError("logits are not finite numbers, so they cannot be compared with the base's")
        # Never below 0 but for rounding.
        return max(found, 0.0)

    def _logits(self, model: Any) -> Any:
        """[rows, tokens, vocabulary]"""
        import torch

        with torch.inference_mode():
            return model(input_ids=self._rows, use_cache=False).logits


class Swap:
    """Puts the variant's weights into the base model, part by part."""

    def __init__(self, base: Any, variant: Any, quantized: Sequence[str]) -> None:
        self.base = base
        self._variant = variant
        self._quantized = [name for name, _ in base.named_modules() if name in set(quantized)]
        if absent := sorted(set(quantized) - set(self._quantized)):
            raise ValueError(
                f"{len(absent)} quantized modules are not in the loaded model, the first of them {absent[0]}"
            )
        self._moved = self._moved_weights()

    def parts(self) -> list[list[str]]:
        """Names of the quantized modules of each part, in the order of the model."""
        return self._by_block() if self._moved else self._by_input()

    @contextmanager
    def lent(self, modules: Sequence[str]) -> Iterator[None]:
        """Within it the base has the variant's weights there."""
        import torch

        with torch.inference_mode():
            own = {name: tensor.clone() for name, tensor in self._tensors(modules)}
        self.put(modules)
        try:
            yield
        finally:
            with torch.inference_mode():
                for name, tensor in self._tensors(modules):
                    tensor.copy_(own[name])

    def put(self, modules: Iterable[str]) -> None:
        """Overwrite the base's weights there, for good."""
        import torch

        names = list(modules)
        with torch.inference_mode():
            for name in names:
                layer, own = self._variant.get_submodule(name), self.base.get_submodule(name)
                own.weight.copy_(effective_weight(layer, self._variant.dtype))
                # Elsewhere a method leaves it alone, and the base's has more digits.
                if own.bias is not None and self._moved:
                    own.bias.copy_(effective_bias(layer, self._variant.dtype))
            for name in self._moved_with(names):
                self.base.get_parameter(name).copy_(self._variant.get_parameter(name))

    def _tensors(self, modules: Sequence[str]) -> Iterator[tuple[str, Any]]:
        for module in modules:
            for name, tensor in self.base.get_submodule(module).named_parameters(module):
                yield name, tensor
        for name in self._moved_with(modules):
            yield name, self.base.get_parameter(name)

    def _moved_with(self, modules: Sequence[str]) -> list[str]:
        blocks = {checkpoint.block(name) for name in modules}
        return [name for name in self._moved if checkpoint.block(name) in blocks]

    def _moved_weights(self) -> list[str]:
        """Parameters of the blocks that were not quantized, and yet are not the base's."""
        import torch

        theirs = dict(self.base.named_parameters())
        inside = tuple(f"{name}." for name in self._quantized)
        return [
            name
            for name, tensor in self._variant.named_parameters()
            if checkpoint.block(name)
            and not name.startswith(inside)
            and name in theirs
            # The base may be loaded in a finer type than the variant.
            and not torch.equal(theirs[name].to(tensor.dtype), tensor)
        ]

    def _by_block(self) -> list[list[str]]:
        found: dict[str, list[str]] = {}
        for name in self._quantized:
            found.setdefault(checkpoint.block(name) or name, []).append(name)
        return list(found.values())

    def _by_input(self) -> list[list[str]]:
        """Modules that read the same tensor; one that no token reaches, as an expert may be, is alone."""
        import torch

        inputs: dict[str, Any] = {}

        def noting(name: str) -> Any:
            # Held, so that no other tensor gets the same identity.
            return lambda module, arguments: inputs.__setitem__(name, arguments[0])

        hooks = [self.base.get_submodule(name).register_forward_pre_hook(noting(name)) for name in self._quantized]
        with torch.inference_mode():
            self.base(input_ids=torch.zeros(1, 1, dtype=torch.long, device=self.base.device), use_cache=False)
        for hook in hooks:
            hook.remove()
        found: dict[object, list[str]] = {}
        for name in self._quantized:
            found.setdefault(id(inputs[name]) if name in inputs else name, []).append(name)
        return list(found.values())


def effective_weight(layer: Any, dtype: Any) -> Any:
    """The matrix [out, in] that a linear layer multiplies by, whatever it is stored as: the layer's answer to unit
    vectors, without its bias, whose size would cost their digits."""
    import torch

    bias, layer.bias = layer.bias, None
    units = torch.eye(layer.in_features, dtype=dtype, device=_device(layer))
    try:
        parts = [layer(part) for part in units.split(PART_ROWS)]
    finally:
        layer.bias = bias
    return torch.cat(parts).T


def effective_bias(layer: Any, dtype: Any) -> Any:
    """What a linear layer adds, [out]: its answer to zeros, since kernels may keep a bias in an order of their own."""
    import torch

    return layer(torch.zeros(1, layer.in_features, dtype=dtype, device=_device(layer)))[0]


def _device(layer: Any) -> Any:
    return next(tensor.device for tensor in (*layer.parameters(), *layer.buffers()))


def _load(artifact: Path, options: EngineOptions) -> Any:
    session = transformers.load(artifact, options)
    if misplaced := session.misplaced():
        raise RuntimeError(misplaced_reason(misplaced, options.device))
    return session.model


def _groups(compared: Compared, swap: Swap, extra: dict[str, int]) -> list[Group]:
    parts = swap.parts()
    found = []
    for done, modules in enumerate(parts, 1):
        with swap.lent(modules):
            kld = compared.kld(swap.base)
        print(f"KLD {kld:.3g}: {', '.join(modules)}", flush=True)
        progress.report(done, len(parts), "parts")
        found.append(Group(modules=modules, kld=kld, extra_bytes=sum(extra[name] for name in modules)))
    return found


def _module_bytes(folder: Path) -> dict[str, int]:
    """Module → bytes of its tensors in the folder's safetensors files, from their headers.

    Format: an unsigned little-endian 64-bit header length, then a JSON header
    (huggingface.co/docs/safetensors, "Format").
    """
    found: dict[str, int] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        for name, entry in header.items():
            if name != "__metadata__":
                start, end = entry["data_offsets"]
                module = name.rpartition(".")[0]
                found[module] = found.get(module, 0) + end - start
    return found
