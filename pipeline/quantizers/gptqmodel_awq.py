"""AWQ: scales up the weight channels that large activations meet before rounding to nearest (Lin et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pipeline.calibration import CalibrationSettings
from pipeline.checkpoint import Linear
from pipeline.quantizers import (
    Quantized,
    QuantizeJob,
    QuantizerSettings,
    _gptqmodel,
    group_size_problems,
)

FORMAT = "awq"
PACKAGES = _gptqmodel.PACKAGES
ENVIRONMENT = _gptqmodel.ENVIRONMENT
TOOLCHAIN = None
WORKING_DTYPE = "float16"
"""GPTQModel's AWQ packs from 16-bit floats only."""


class Settings(QuantizerSettings):
    bits: Literal[4] = 4
    """The GEMM checkpoint format packs 4-bit weights only."""
    group_size: Literal[-1, 16, 32, 64, 128, 256, 512, 1024] = 64
    """Weights that share one scale; must divide every layer's input size."""
    sym: bool = False
    calibration: CalibrationSettings


def check(settings: Settings, linears: Sequence[Linear]) -> list[str]:
    return group_size_problems(settings.group_size, linears, _gptqmodel.GROUP_SIZES)


def quantize(job: QuantizeJob) -> Quantized:
    from gptqmodel import BACKEND
    from gptqmodel.quantization.config import FORMAT as GPTQMODEL_FORMAT
    from gptqmodel.quantization.config import AWQConfig

    settings: Settings = job.settings
    config = AWQConfig(
        bits=settings.bits, group_size=settings.group_size, sym=settings.sym, format=GPTQMODEL_FORMAT.GEMM
    )
    # AUTO asks for CUDA kernels while it quantizes, even on a CPU.
    backend = BACKEND.AUTO if job.device == "cuda" else BACKEND.AWQ_TORCH
    return _gptqmodel.quantize(job, config, backend, WORKING_DTYPE)
