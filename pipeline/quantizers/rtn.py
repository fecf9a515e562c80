"""Round to nearest: each group of weights on an even grid from its smallest to its largest, no text looked at.

The control for every calibrated method: what they gain over this is what calibration bought.
Stored in the GPTQ checkpoint format, so that the same kernels run it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.model_shape import ModelShape
from pipeline.quantizers import (
    Kernel,
    Quantized,
    QuantizeJob,
    QuantizerSettings,
    _gptqmodel,
    group_size_problems,
    module_name_problems,
)

FORMAT = "gptq"
PACKAGES = _gptqmodel.PACKAGES
ENVIRONMENT = _gptqmodel.ENVIRONMENT
TOOLCHAIN = None
WORKING_DTYPE = "float32"
"""Costs little, as no pass is made; in float16 the scales would be rounded before the weights are."""

KERNELS = {
    "cpu": _gptqmodel.cpu_kernel("TorchAtenLinear"),
    "cuda": _gptqmodel.PackedKernel(
        "MarlinLinear", bits=(4, 8), group_sizes=(-1, 32, 64, 128), symmetric_only=True, capability=7.5
    ),
}
"""Those of the GPTQ format; see `gptqmodel_gptq`."""


class Settings(QuantizerSettings):
    bits: Literal[2, 3, 4, 8] = 4
    group_size: Literal[-1, 16, 32, 64, 128, 256, 512, 1024] = 64
    """Weights that share one scale; must divide every layer's input size. -1: one scale per output channel."""
    sym: bool = True
    """Whether the grid is even on both sides of zero; else it goes from the group's smallest weight to its largest."""
    skip_modules: list[str] = Field(default=[])
    """Linear layers left unquantized: full names, or last parts of names such as `down_proj`."""

    def working_bytes(self, model: ModelShape, parameters: int, tokens: int) -> dict[str, float]:
        return {"weights in 32 bits": 4.0 * parameters}

    def kernel(self, device: str) -> Kernel:
        return KERNELS[device].fitting(self.bits, self.group_size, self.sym)


def check(settings: Settings, model: ModelShape) -> list[str]:
    quantized = _gptqmodel.kept(settings.skip_modules, model.linears)
    found = module_name_problems("skip_modules", settings.skip_modules, model.linears)
    if not quantized:
        found.append("skip_modules: nothing is left to quantize; take some out")
    return found + group_size_problems(settings.group_size, model, _gptqmodel.GROUP_SIZES, quantized)


def quantize(job: QuantizeJob) -> Quantized:
    import torch
    from gptqmodel import BACKEND, GPTQModel
    from gptqmodel.quantization.config import RTNConfig

    settings: Settings = job.settings
    config = RTNConfig(
        bits=settings.bits,
        group_size=settings.group_size,
        sym=settings.sym,
        dynamic=_gptqmodel.left_out(job),
    )
    model = GPTQModel.load(
        str(job.base), config, device=job.device, dtype=getattr(torch, WORKING_DTYPE), trust_remote_code=False
    )
    model.quantize(backend=BACKEND.AUTO)
    modules = _gptqmodel.save(model, job.out)
    if settings.skip_modules:
        # transformers does not read GPTQModel's own `dynamic`, and would look for packed weights in every layer.
        _gptqmodel.add_to_config(job.out, {"modules_in_block_to_quantize": [sorted(modules)]})
    return Quantized(modules)
