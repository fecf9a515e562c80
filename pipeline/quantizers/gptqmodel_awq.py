"""AWQ: scales up the weight channels that large activations meet before rounding to nearest (Lin et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from pipeline import calibration, model_shape
from pipeline.model_shape import ModelShape
from pipeline.quantizers import Kernel, Quantized, QuantizeJob, _gptqmodel

FORMAT = "awq"
PACKAGES = _gptqmodel.PACKAGES
ENVIRONMENT = _gptqmodel.ENVIRONMENT
TOOLCHAIN = None
WORKING_DTYPE = "float16"
"""GPTQModel's AWQ packs from 16-bit floats only."""


GROUP_SIZES = (-1, 16, 32, 64, 128)
"""What GPTQModel's kernels for this format read; larger groups are quantized and saved, but never loaded again."""

KERNELS = {
    "cpu": _gptqmodel.cpu_kernel("TorchAtenAwqLinear"),
    "cuda": _gptqmodel.PackedKernel("AwqMarlinLinear", bits=(4, 8), group_sizes=(-1, 32, 64, 128), capability=8.0),
}
"""gptqmodel 7.6, nn_modules/qlinear: torch_aten_kernel_awq.py, marlin_awq.py."""


class Settings(_gptqmodel.Settings):
    group_size: Literal[-1, 16, 32, 64, 128] = 64
    """Weights that share one scale; must divide every layer's input size. -1: one scale per output channel."""
    bits: Literal[4] = 4
    """The GEMM checkpoint format packs 4-bit weights only."""
    sym: bool = False
    """Whether zero lies in the middle of the range, so that no zero points are needed."""
    clip_search: bool = True
    """Whether to search, per group of weights, how far cutting off the largest lowers the error; takes more time."""
    duo_scaling: bool = True
    """Whether the scales are searched from activations and weights (true) or from activations alone, as in the paper
    (false)."""
    search_memory_mib: int = Field(default=1024, ge=1)
    """Bound on the temporary tensors of the search, in MiB."""
    scale_search_chunked_activations: bool = True
    """Whether the search passes its activations through in parts: slower, with less memory."""

    def working_bytes(self, model: ModelShape, parameters: int, tokens: int, device: str) -> dict[str, float]:
        return {
            "weights in 16 bits": 2.0 * parameters,
            **self.search_bytes(model, tokens, WORKING_DTYPE),
            "the bound on the search (search_memory_mib)": float(self.search_memory_mib * 2**20),
        }

    def kernel(self, device: str, compute_dtype: str) -> Kernel:
        return KERNELS[device].fitting(self.bits, self.group_size, self.sym)


def check(settings: Settings, model: ModelShape) -> list[str]:
    return _gptqmodel.check(settings, model, GROUP_SIZES)


def quantize(job: QuantizeJob) -> Quantized:
    from gptqmodel import BACKEND
    from gptqmodel.looper.awq_processor import AWQProcessor
    from gptqmodel.quantization.config import FORMAT as GPTQMODEL_FORMAT
    from gptqmodel.quantization.config import AWQConfig

    settings: Settings = job.settings
    config = AWQConfig(
        bits=settings.bits,
        sym=settings.sym,
        format=GPTQMODEL_FORMAT.GEMM,
        scale_search_chunked_activations=settings.scale_search_chunked_activations,
        **_gptqmodel.config_arguments(job),
    )
    # AUTO asks for CUDA kernels while it quantizes, even on a CPU.
    backend = BACKEND.AUTO if job.device == "cuda" else BACKEND.AWQ_TORCH
    # Of samples that differ in length GPTQModel's search keeps the last one only (7.6.0, looper/awq_processor.py,
    # `latest_batch`), and says so in its log alone.
    job = replace(job, calibration=calibration.equal_blocks(job.calibration))
    with _gptqmodel.replaced(AWQProcessor, "__init__", lambda plain: with_search(plain, settings)):
        done = _gptqmodel.quantize(job, config, backend, WORKING_DTYPE, settings.batch_size)
    if settings.skip_modules:
        _gptqmodel.add_to_config(job.out, {"modules_to_not_convert": _skipped(job, done)})
    return done


def with_search(plain: Callable[..., None], settings: Settings) -> Callable[..., None]:
    """GPTQModel's `AWQProcessor.__init__`, which fixes these (7.6.0, looper/awq_processor.py), with our settings."""

    def initialise(processor: Any, *arguments: Any, **named: Any) -> None:
        plain(processor, *arguments, **named)
        processor.apply_clip = settings.clip_search
        processor.duo_scaling = settings.duo_scaling
        processor.max_chunk_memory = settings.search_memory_mib * 2**20

    return initialise


def _skipped(job: QuantizeJob, done: Quantized) -> list[str]:
    return [layer.name for layer in model_shape.read(job.base).all_linears if layer.name not in set(done.modules)]
