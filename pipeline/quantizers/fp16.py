"""No quantization: the base checkpoint as it is, the baseline of every comparison."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from pipeline import store
from pipeline.model_shape import ModelShape
from pipeline.quantizers import Quantized, QuantizeJob, QuantizerSettings

FORMAT = "safetensors"
PACKAGES: tuple[str, ...] = ()
ENVIRONMENT: Mapping[str, str] = {}
TOOLCHAIN = None


class Settings(QuantizerSettings):
    def working_bytes(self, model: ModelShape, parameters: int, tokens: int, device: str) -> dict[str, float]:
        return {}


def check(settings: Settings, model: ModelShape) -> list[str]:
    return []


def quantize(job: QuantizeJob) -> Quantized:
    shutil.copytree(job.base, job.out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(store.MANIFEST))
    return Quantized(modules=[])
