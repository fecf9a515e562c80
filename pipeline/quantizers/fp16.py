"""No quantization: the base checkpoint as it is, the baseline of every comparison."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from pipeline import store
from pipeline.checkpoint import Linear
from pipeline.quantizers import Quantized, QuantizeJob, QuantizerSettings

FORMAT = "safetensors"
PACKAGES: tuple[str, ...] = ()
ENVIRONMENT: Mapping[str, str] = {}
TOOLCHAIN = None


class Settings(QuantizerSettings):
    pass


def check(settings: Settings, linears: Sequence[Linear]) -> list[str]:
    return []


def quantize(job: QuantizeJob) -> Quantized:
    shutil.copytree(job.base, job.out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(store.MANIFEST))
    return Quantized(modules=[])
