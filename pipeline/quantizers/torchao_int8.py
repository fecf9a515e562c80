"""W8A8-INT8: weights in INT8 per output row, activations rounded to INT8 per token as they come, integer products.

W8A16 with `activations: none`. Needs no calibration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from pipeline.model_shape import ModelShape
from pipeline.quantizers import Kernel, Quantized, QuantizeJob, QuantizerSettings, _skipping, _torchao

FORMAT = _torchao.FORMAT
PACKAGES = _torchao.PACKAGES
ENVIRONMENT: Mapping[str, str] = {}
TOOLCHAIN = None
PRODUCT = "torch._int_mm"


class Settings(QuantizerSettings):
    activations: Literal["dynamic", "none"] = "dynamic"
    """`dynamic`: INT8 with a scale from each token's own largest value; `none`: left in 16 bits."""
    sym: bool = True
    """Whether the activations' grid is even on both sides of zero; the weights' always is."""
    skip_modules: list[str] = Field(default=["lm_head"])
    """Modules left unquantized, by their name or the last part of it."""

    def kernel(self, device: str, compute_dtype: str) -> Kernel:
        floats = "needs INT8 activations, and settings.activations is none"
        return Kernel(PRODUCT, unfit=floats if self.activations == "none" else None)


def check(settings: Settings, model: ModelShape) -> list[str]:
    found = _skipping.problems(settings.skip_modules, model)
    if settings.activations == "none" and not settings.sym:
        found.append("sym: false is about activations, and activations are none; set one of them otherwise")
    return found


def quantize(job: QuantizeJob) -> Quantized:
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig
    from torchao.quantization.quant_primitives import MappingType

    settings: Settings = job.settings
    if settings.activations == "none":
        config = Int8WeightOnlyConfig(version=2, set_inductor_config=False)
    else:
        mapping = MappingType.SYMMETRIC if settings.sym else MappingType.ASYMMETRIC
        config = Int8DynamicActivationInt8WeightConfig(act_mapping_type=mapping, set_inductor_config=False)
    return _torchao.quantize(job, config, "float16")
