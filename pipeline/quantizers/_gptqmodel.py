"""What the GPTQModel quantizers share: settings, group sizes, worker environment, the load → quantize → save walk."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline import checkpoint, installed, model_shape, progress, store
from pipeline.artifact_records import Attempt
from pipeline.calibration import CalibrationSettings
from pipeline.checkpoint import Linear
from pipeline.model_shape import ModelShape
from pipeline.quantizers import (
    DTYPE_BYTES,
    Kernel,
    Quantized,
    QuantizeJob,
    QuantizerSettings,
    group_size_problems,
    module_name_problems,
    modules_named,
)

PACKAGES = ("gptqmodel", "transformers", "torch")

GROUP_SIZES = (-1, 16, 32, 64, 128, 256, 512, 1024)
"""The sizes GPTQModel's kernels know."""

CALIBRATION_MIN_TOKENS = 10

ENVIRONMENT: Mapping[str, str] = {
    # On two cores GPTQModel gives the CPU one worker and then asks it for two.
    "GPTQMODEL_CPU_WORKERS": "2",
}


@dataclass(frozen=True)
class PackedKernel:
    """What a kernel of GPTQModel that reads packed weights can do; others turn them back to floats at each pass."""

    name: str
    bits: tuple[int, ...]
    group_sizes: tuple[int, ...]
    symmetric_only: bool = False
    capability: float = 0.0
    broken_group_sizes: tuple[int, ...] = ()
    """It says that it reads these, and does not."""

    def fitting(self, bits: int, group_size: int, sym: bool) -> Kernel:
        """The kernel, and whether it can be used with these settings."""
        reads = {
            f"reads weights of {_any_of(self.bits)} bits, not {bits}": bits in self.bits,
            f"reads groups of {_any_of(self.group_sizes)}, not {group_size}": group_size in self.group_sizes,
            "reads symmetric weights alone (sym: true)": sym or not self.symmetric_only,
        }
        unfit = [words for words, fits in reads.items() if not fits]
        broken = f"is chosen for groups of {group_size}, and fails at the first pass"
        return Kernel(
            self.name,
            unfit="; ".join(unfit) or None,
            capability=self.capability,
            breaks=broken if group_size in self.broken_group_sizes and bits in self.bits else None,
        )


def cpu_kernel(name: str) -> PackedKernel:
    """That of either format: both call torch's `_weight_int4pack_mm_for_cpu`, for groups of 16 too, which torch 2.13
    refuses."""
    return PackedKernel(name, bits=(4,), group_sizes=(32, 64, 128), broken_group_sizes=(16,))


GPTQ_KERNELS = {
    "cpu": cpu_kernel("TorchAtenLinear"),
    "cuda": PackedKernel(
        "MarlinLinear", bits=(4, 8), group_sizes=(-1, 32, 64, 128), symmetric_only=True, capability=7.5
    ),
}
"""Those that read the GPTQ format (gptqmodel 7.6, nn_modules/qlinear: torch_aten_kernel.py, marlin.py)."""


def _any_of(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


class GridSettings(QuantizerSettings):
    """What methods take that need none of GPTQModel's passes: where the weights may lie. Stored in the GPTQ format."""

    bits: Literal[2, 3, 4, 8] = 4
    group_size: Literal[-1, 16, 32, 64, 128, 256, 512, 1024] = 64
    """Weights that share one scale; must divide every layer's input size. -1: one scale per output channel."""
    sym: bool = True
    """Whether the grid is even on both sides of zero; else it goes from the group's smallest weight to its largest."""
    skip_modules: list[str] = Field(default=[])
    """Linear layers left unquantized: full names, or last parts of names such as `down_proj`."""

    def kernel(self, device: str, compute_dtype: str) -> Kernel:
        return GPTQ_KERNELS[device].fitting(self.bits, self.group_size, self.sym)


class Settings(QuantizerSettings):
    """What both methods take. Names are GPTQModel's own where it has one."""

    group_size: Literal[-1, 16, 32, 64, 128, 256, 512, 1024] = 64
    """Weights that share one scale; must divide every layer's input size. -1: one scale per output channel."""
    skip_modules: list[str] = Field(default=[])
    """Linear layers left unquantized: full names, or last parts of names such as `down_proj`."""
    fallback: Literal["rtn", "midpoint", "mean", "median", "stdclip"] | None = "rtn"
    """How a layer is rounded that too few calibration tokens reach, as happens to experts; None: that is an error."""
    fallback_share: float = Field(default=0.005, gt=0, lt=1)
    """Too few are less than this share of the calibration tokens."""
    experts_per_token: Annotated[int, Field(ge=1)] | Literal["all"] | None = None
    """Experts that each token is sent to while calibrating a mixture of experts; None: as the model does."""
    batch_size: int = Field(default=1, ge=1)
    """Calibration samples that pass through the model together: more need more memory and take less time."""
    calibration: CalibrationSettings

    def search_bytes(self, model: ModelShape, tokens: int, dtype: str) -> dict[str, float]:
        """Of `working_bytes`, what passing the calibration text through takes: one block's input and output."""
        width = model.hidden_size or model.widest_input
        return {"a block's input and output on the calibration text": 2.0 * DTYPE_BYTES[dtype] * tokens * width}


def check(settings: Settings, model: ModelShape, group_sizes: Sequence[int] = GROUP_SIZES) -> list[str]:
    found = layer_problems(settings, model, group_sizes)
    supported = installed.table_keys("gptqmodel", "models/auto.py", "MODEL_MAP")
    if supported and model.model_type not in supported:
        found.append(
            f"calibration: GPTQModel does not know the model type {model.model_type!r} of config.json; quantize it by "
            "a method that needs no calibration, or with a later GPTQModel"
        )
    return found


def layer_problems(
    settings: Settings | GridSettings, model: ModelShape, group_sizes: Sequence[int] = GROUP_SIZES
) -> list[str]:
    """What is wrong with `skip_modules` and `group_size`."""
    quantized = kept(settings.skip_modules, model.linears)
    found = module_name_problems("skip_modules", settings.skip_modules, model.linears)
    if model.linears and not quantized:
        found.append("skip_modules: nothing is left to quantize; take some out")
    return found + group_size_problems(settings.group_size, model, group_sizes, quantized)


def kept(skipped: Sequence[str], linears: Sequence[Linear]) -> list[Linear]:
    """The layers that are quantized when those named are skipped."""
    out = set(modules_named(skipped, linears))
    return [layer for layer in linears if layer.name not in out]


def config_arguments(job: QuantizeJob) -> dict[str, Any]:
    """The arguments that GPTQModel's configs of both methods take."""
    from gptqmodel.quantization.config import ExpertsRoutingOverride, Fallback, MoEConfig

    settings: Settings = job.settings
    experts = settings.experts_per_token
    return {
        "group_size": settings.group_size,
        "dynamic": left_out(job),
        "fallback": Fallback(settings.fallback, f"{settings.fallback_share:%}") if settings.fallback else None,
        "moe": None if experts is None else MoEConfig(ExpertsRoutingOverride(experts)),
    }


def left_out(job: QuantizeJob) -> dict[str, Any]:
    """GPTQModel's `dynamic` for the modules that are skipped: a pattern after `-:` names one to leave out."""
    skipped = modules_named(job.settings.skip_modules, model_shape.read(job.base).linears)
    return {f"-:^{re.escape(name)}$": {} for name in skipped}


def quantize(job: QuantizeJob, config: Any, backend: Any, dtype: str, batch_size: int = 1) -> Quantized:
    """Quantize `job.base` by a GPTQModel config into `job.out`; tells which modules it quantized, and which it rounded
    without calibration.

    `dtype` is what the model computes in meanwhile; the artifact's unquantized tensors are float16 in any case.
    """
    import torch
    from gptqmodel import GPTQModel
    from transformers import AutoTokenizer

    torch.manual_seed(job.seed)
    tokenizer = AutoTokenizer.from_pretrained(job.base, local_files_only=True)
    model = GPTQModel.load(
        str(job.base), config, device=job.device, dtype=getattr(torch, dtype), trust_remote_code=False
    )
    patterns = list(model.quantize_config.dynamic or {})
    model.layer_callback = _LayerProgress(model.model.config.num_hidden_layers)
    model.quantize(
        [{"input_ids": list(ids), "attention_mask": [1] * len(ids)} for ids in job.calibration],
        tokenizer=tokenizer,
        batch_size=batch_size,
        backend=backend,
        calibration_data_min_length=CALIBRATION_MIN_TOKENS,
    )
    dropped = uncalibrated(patterns, model.quantize_config.dynamic or {})
    if dropped:
        named = ", ".join(dropped[:3]) + (f" and {len(dropped) - 3} more" if len(dropped) > 3 else "")
        raise RuntimeError(
            f"no calibration tokens reached {named}, so GPTQModel would leave them unquantized; give more calibration "
            "samples, set settings.fallback to a rounding, or name them in settings.skip_modules"
        )
    modules = save(model, job.out)
    return Quantized(modules, without_calibration(model.quant_log, modules))


def uncalibrated(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """The modules that GPTQModel dropped while it quantized, since no calibration token reached them.

    Without a fallback it puts them among the patterns of what is left out, escaped, and says so in its log alone
    (7.6.0, looper/stage_subset.py).

    Args:
        before: the patterns of its `dynamic` as they were given.
        after: as they are when it is done.
    """
    known = set(before)
    return [re.sub(r"\\(.)", r"\1", new[2:]) for new in after if new not in known and new.startswith("-:")]


def save(model: Any, out: Path) -> list[str]:
    """Write a quantized GPTQModel, its unquantized tensors as float16; names of the modules that are quantized."""
    model.save(str(out))
    _store_as_float16(out)
    _remove_run_details(out)
    suffix = ".qweight"
    return [name.removesuffix(suffix) for name in checkpoint.tensor_shapes(out) if name.endswith(suffix)]


def without_calibration(log: Sequence[Mapping[str, Any]], modules: Sequence[str]) -> list[Attempt]:
    """The modules that GPTQModel's log says fell back for want of calibration tokens, in the order of `modules`."""
    fallen = {f".{entry['layer']}.{entry['module']}": entry for entry in log if "fallback" in str(entry.get("loss"))}
    return [
        Attempt(
            settings={"module": name},
            failure=f"only {entry.get('samples')} calibration tokens reached it, so it got a plain rounding "
            f"({entry['loss']})",
        )
        for name in modules
        for end, entry in fallen.items()
        if name.endswith(end)
    ]


def add_to_config(folder: Path, entries: Mapping[str, Any]) -> None:
    """Put entries into the artifact's quantization config, where engines look for them."""
    path = folder / "config.json"
    value = store.read_json(path)
    store.write_json(path, {**value, "quantization_config": {**value["quantization_config"], **entries}})


@contextlib.contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Within it, attribute `name` of a class is `make(original)`: for what GPTQModel offers no setting for."""
    original = getattr(owner, name)
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


class _LayerProgress:
    """Told by GPTQModel when a decoder layer is done."""

    def __init__(self, layers: int) -> None:
        self._layers = layers

    def layer_complete(self, *, layer_idx: int, submodule_finalized: bool) -> None:
        if submodule_finalized:
            progress.report(layer_idx + 1, self._layers, "layers")


def _store_as_float16(folder: Path) -> None:
    """Cast the float32 tensors that were left unquantized back to the base's float16."""
    import torch
    from safetensors.torch import load_file, save_file

    for path in sorted(folder.glob("*.safetensors")):
        tensors = load_file(path)
        if any(tensor.dtype is torch.float32 for tensor in tensors.values()):
            halved = {
                name: tensor.to(torch.float16) if tensor.dtype is torch.float32 else tensor
                for name, tensor in tensors.items()
            }
            save_file(halved, path, metadata={"format": "pt"})
    config = store.read_json(folder / "config.json")
    store.write_json(folder / "config.json", {**config, "dtype": "float16"})


def _remove_run_details(folder: Path) -> None:
    """Drop timings and the temporary folder's name, which would give equal weights a new hash at every run."""
    (folder / "quant_log.csv").unlink(missing_ok=True)
    for name in ("config.json", "quantize_config.json"):
        value = store.read_json(folder / name)
        value.get("quantization_config", value).get("meta", {}).pop("offload_to_disk_path", None)
        store.write_json(folder / name, value)
