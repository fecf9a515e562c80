"""One file per quantizer; the file name is the name used in params.yaml.

Each module defines:

- `FORMAT`: what the artifact is, for engines to match (`safetensors`, `bitsandbytes`, `gptq`, `awq`, `torchao`,
  `gguf`).
- `PACKAGES`: distributions whose versions decide the result; recorded in the manifest.
- `ENVIRONMENT`: environment variables its worker process needs before any import.
- `Settings`: a frozen pydantic model of the variant's `settings`. A field `calibration: CalibrationSettings` says
  that the method needs calibration text.
- `check(settings, model)`: mistakes that can be told from the base model's `ModelShape`, before any work. Each begins
  with the setting it is about.
- `TOOLCHAIN`: None, or the environment apart from the main one that the worker runs in, as `"NAME@LOCK"`: its folder in
  `pipeline/toolchains/` and the first 12 digits of the SHA-256 of its requirements.lock, so that a new lock makes the
  variants of this file anew. `quantgate toolchain lock NAME` writes both.
- `quantize(job)`: read `job.base`, write a checkpoint into `job.out`, return what was done.

Heavy packages are imported inside `quantize`, so that reading params.yaml stays fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline.artifact_records import Attempt
from pipeline.checkpoint import Linear
from pipeline.model_shape import ModelShape

DTYPE_BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a number in the torch dtypes that models work in."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that multiplies by a method's weights as they are stored."""

    name: str
    unfit: str | None = None
    """Why it cannot be used with these settings, as in "the kernel X …"; None where it can."""
    capability: float = 0.0
    """CUDA compute capability it needs at least."""
    sole: bool = False
    """Whether nothing else does its work: else a general kernel turns the weights back to floats at each pass."""
    breaks: str | None = None
    """Why it is chosen for these settings and then fails, in the same words; None where it works."""


class QuantizerSettings(BaseModel):
    """What preflight asks may be answered by overriding; the answers here are those of a method that loads the model in
    16 bits and looks at no text."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def working_bytes(self, model: ModelShape, parameters: int, tokens: int, device: str) -> dict[str, float]:
        """An estimate of the memory that quantizing takes at once: what for → bytes, beside the libraries themselves.

        Args:
            parameters: weights of the base model.
            tokens: of the calibration text; 0 where there is none.
            device: `cpu` or `cuda`.
        """
        return {"weights in 16 bits": 2.0 * parameters}

    def stored_bytes(self, parameters: int) -> float:
        """Bytes of the artifact at most."""
        return 2.0 * parameters

    def temporary_bytes(self, parameters: int) -> float:
        """Bytes that are written beside the artifact while it is made, and then removed."""
        return 0.0

    def tokens_needed(self, model: ModelShape) -> tuple[int, str] | None:
        """Calibration tokens under which the method is on uncertain ground, and why; None where it needs none."""
        return None

    def quantizes_at_load(self) -> bool:
        """Whether the artifact will hold unquantized weights that the engine must quantize each time it loads them.

        False where that shows only in quantizing; the manifest's `at_load` tells it then.
        """
        return False

    def kernel(self, device: str, compute_dtype: str) -> Kernel | None:
        """The kernel made for these weights on `cpu` or `cuda`, in a model that computes in the torch dtype of that
        name; None where nothing is known to be needed."""
        return None


@dataclass(frozen=True)
class QuantizeJob:
    base: Path
    """A complete fp16 safetensors checkpoint."""
    out: Path
    """An empty folder for the artifact."""
    settings: Any
    """The quantizer's own `Settings`."""
    calibration: Sequence[Sequence[int]]
    """Token ids, one sequence per sample; empty where the method needs none."""
    device: str
    """`cpu` or `cuda`."""
    compute_dtype: str
    """Name of the torch dtype the engine computes in."""
    seed: int


@dataclass(frozen=True)
class Quantized:
    """What `quantize` did, beyond the files it wrote."""

    modules: Sequence[str]
    """Names of the quantized linear layers, as in the base checkpoint without `.weight`."""
    attempts: Sequence[Attempt] = ()
    """Every try, failed ones included, of a method that tries more than once; empty where there was one way only."""
    at_load: str | None = None
    """Why the artifact holds unquantized weights that the engine quantizes each time it loads them; None where the
    quantized weights themselves are stored."""


def modules_named(names: Iterable[str], linears: Iterable[Linear]) -> list[str]:
    """Full names of the layers that `names` mean: each a full name, or the last part of one (`down_proj`)."""
    wanted = set(names)
    return [layer.name for layer in linears if wanted & {layer.name, layer.name.rsplit(".", 1)[-1]}]


def module_name_problems(setting: str, names: Iterable[str], linears: Iterable[Linear]) -> list[str]:
    """One message for each name that means no layer, with the last parts of names there are."""
    layers = list(linears)
    leaves = sorted({layer.name.rsplit(".", 1)[-1] for layer in layers})
    return [
        f"{setting}: no module {name!r}; this model has {', '.join(leaves)}"
        for name in names
        if not modules_named([name], layers)
    ]


def group_size_problems(
    group_size: int, model: ModelShape, supported: Sequence[int], linears: Iterable[Linear] | None = None
) -> list[str]:
    """One message naming every distinct input size that `group_size` does not divide, with the sizes that would do.

    Looks at `linears`, all of the model's unless given, as they are split among the devices that serve them. -1 means
    one group per output channel, which divides everything.
    """
    layers = list(model.linears if linears is None else linears)
    if group_size == -1:
        return []
    examples = {model.shard_inputs(layer): layer for layer in reversed(layers)}
    faulty = {size: layer for size, layer in sorted(examples.items()) if size % group_size}
    if not faulty:
        return []
    fitting = [size for size in supported if size == -1 or all(size <= n and n % size == 0 for n in examples)]
    named = "; ".join(f"{layer.name} has {_inputs(size, layer, model)}" for size, layer in faulty.items())
    return [
        f"group_size {group_size} does not divide every layer: {named}. "
        f"Sizes that would do: {', '.join(map(str, fitting))}"
    ]


def _inputs(size: int, layer: Linear, model: ModelShape) -> str:
    if size == layer.in_features:
        return f"{size} input features"
    return f"{layer.in_features} input features, {size} on each of {model.tensor_parallel} devices"
