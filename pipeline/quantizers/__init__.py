"""One file per quantizer; the file name is the name used in params.yaml.

Each module defines:

- `FORMAT`: what the artifact is, for engines to match (`safetensors`, `bitsandbytes`, `gptq`, `awq`).
- `PACKAGES`: distributions whose versions decide the result; recorded in the manifest.
- `ENVIRONMENT`: environment variables its worker process needs before any import.
- `Settings`: a frozen pydantic model of the variant's `settings`. A field `calibration: CalibrationSettings` says
  that the method needs calibration text.
- `check(settings, linears)`: mistakes that can be told from the layer shapes, before any work.
- `TOOLCHAIN`: name of the folder in `pipeline/toolchains/` whose environment the worker runs in; None for the main one.
- `quantize(job)`: read `job.base`, write a checkpoint into `job.out`, return what was done.

Heavy packages are imported inside `quantize`, so that reading params.yaml stays fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline.checkpoint import Linear
from pipeline.records import Attempt


class QuantizerSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


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


def group_size_problems(group_size: int, linears: Iterable[Linear], supported: Sequence[int]) -> list[str]:
    """One message naming every distinct input size that `group_size` does not divide, with the sizes that would do.

    -1 means one group per output channel, which divides everything.
    """
    layers = list(linears)
    if group_size == -1:
        return []
    examples = {layer.in_features: layer.name for layer in reversed(layers) if layer.in_features % group_size}
    if not examples:
        return []
    inputs = {layer.in_features for layer in layers}
    fitting = [size for size in supported if size == -1 or all(size <= n and n % size == 0 for n in inputs)]
    named = "; ".join(f"{name} has {size} input features" for size, name in sorted(examples.items()))
    return [
        f"group_size {group_size} does not divide every layer: {named}. "
        f"Sizes that would do: {', '.join(map(str, fitting))}"
    ]
