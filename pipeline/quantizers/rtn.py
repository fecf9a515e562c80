"""Round to nearest: each group of weights on an even grid from its smallest to its largest, no text looked at.

The control for every calibrated method: what they gain over this is what calibration bought.
Stored in the GPTQ checkpoint format, so that the same kernels run it.
"""

from __future__ import annotations

from pipeline.model_shape import ModelShape
from pipeline.quantizers import Quantized, QuantizeJob, _gptqmodel

FORMAT = "gptq"
PACKAGES = _gptqmodel.PACKAGES
ENVIRONMENT = _gptqmodel.ENVIRONMENT
TOOLCHAIN = None
WORKING_DTYPE = "float32"
"""Costs little, as no pass is made; in float16 the scales would be rounded before the weights are."""


class Settings(_gptqmodel.GridSettings):
    def working_bytes(self, model: ModelShape, parameters: int, tokens: int, device: str) -> dict[str, float]:
        return {"weights in 32 bits": 4.0 * parameters}


def check(settings: Settings, model: ModelShape) -> list[str]:
    return _gptqmodel.layer_problems(settings, model)


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
