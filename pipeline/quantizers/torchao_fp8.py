"""W8A8-FP8: weights and activations in FP8 (E4M3), products by the GPU's FP8 units (Micikevicius et al. 2022).

W8A16 with `activations: none`, which runs anywhere. Needs no calibration.
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
PRODUCT = "torch._scaled_mm"
CAPABILITY = 8.9
"""CUDA compute capability with FP8 units: Ada, Hopper and later."""


class Settings(QuantizerSettings):
    activations: Literal["dynamic", "none"] = "dynamic"
    """`dynamic`: FP8 with scales from their own largest values; `none`: left in 16 bits."""
    granularity: Literal["row", "tensor"] = "row"
    """What shares one scale: an output row of weights and a token of activations, or a whole matrix of either."""
    skip_modules: list[str] = Field(default=["lm_head"])
    """Modules left unquantized, by their name or the last part of it."""

    def kernel(self, device: str, compute_dtype: str) -> Kernel:
        if self.activations == "none":
            return Kernel(PRODUCT, unfit="needs FP8 activations, and settings.activations is none")
        if device == "cpu":
            return Kernel(PRODUCT, unfit="multiplies FP8 on GPUs alone", sole=True)
        return Kernel(PRODUCT, capability=CAPABILITY, sole=True, breaks=_unfit_dtype(self, compute_dtype))


def check(settings: Settings, model: ModelShape) -> list[str]:
    return _skipping.problems(settings.skip_modules, model)


def quantize(job: QuantizeJob) -> Quantized:
    """Quantize as in the module's words.

    Raises:
        RuntimeError: activations are to be FP8, and the device has no units for that, or not for this compute type.
    """
    from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, Float8WeightOnlyConfig
    from torchao.quantization.granularity import PerRow, PerTensor

    settings: Settings = job.settings
    granularity = PerRow() if settings.granularity == "row" else PerTensor()
    if settings.activations == "none":
        config = Float8WeightOnlyConfig(granularity=granularity, set_inductor_config=False)
    else:
        _require_fp8_units(job)
        config = Float8DynamicActivationFloat8WeightConfig(granularity=granularity, set_inductor_config=False)
    # torchao turns FP8 weights back only to the type they came from, which has to be that of the activations.
    return _torchao.quantize(job, config, job.compute_dtype)


def _unfit_dtype(settings: Settings, compute_dtype: str) -> str | None:
    """Why FP8 products do not go with what the model computes in, in words that follow the kernel's name."""
    if settings.granularity != "row" or compute_dtype == "bfloat16":
        return None
    return (
        f"gives bfloat16 alone where rows have scales of their own (granularity: row), and runtime.compute_dtype is "
        f"{compute_dtype}: set that to bfloat16, or settings.granularity to tensor"
    )


def _require_fp8_units(job: QuantizeJob) -> None:
    import torch
    from torchao.utils import is_MI300, is_sm_at_least_89

    if not (job.device == "cuda" and (is_sm_at_least_89() or is_MI300())):
        here = torch.cuda.get_device_name() if job.device == "cuda" else "a CPU"
        raise RuntimeError(
            f"unsupported here: FP8 products need an NVIDIA GPU of compute capability {CAPABILITY} or more (Ada, "
            f"Hopper and later) or an AMD MI300, and this is {here}; settings.activations: none keeps the weights "
            "alone in FP8 and runs here"
        )
    if unfit := _unfit_dtype(job.settings, job.compute_dtype):
        raise RuntimeError(f"unsupported here: {PRODUCT} {unfit}")
