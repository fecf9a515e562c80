"""LLM.int8(): weights in INT8 per output row, activation outliers kept in 16 bits (Dettmers et al. 2022).

Needs no calibration. The weights are stored in INT8, so the artifact is what is loaded and measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from pipeline.model_shape import ModelShape
from pipeline.quantizers import Kernel, Quantized, QuantizeJob, QuantizerSettings, _skipping

FORMAT = "bitsandbytes"
PACKAGES = ("bitsandbytes", "transformers", "torch")
ENVIRONMENT: Mapping[str, str] = {}
TOOLCHAIN = None
KERNELS = {"cpu": Kernel("int8_linear_matmul"), "cuda": Kernel("LLM.int8()", capability=7.5, sole=True)}
"""huggingface.co/docs/bitsandbytes/v0.50.0/installation, "NVIDIA CUDA"."""


class Settings(QuantizerSettings):
    outlier_threshold: float = Field(default=6.0, ge=0)
    """Activation columns with a larger magnitude are computed in 16 bits; 0 computes all in INT8."""
    skip_modules: list[str] = Field(default=["lm_head"])
    """Modules left unquantized: full names, or last parts of names such as `down_proj`."""

    def kernel(self, device: str, compute_dtype: str) -> Kernel:
        return KERNELS[device]


def check(settings: Settings, model: ModelShape) -> list[str]:
    return _skipping.problems(settings.skip_modules, model)


def quantize(job: QuantizeJob) -> Quantized:
    import bitsandbytes
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    settings: Settings = job.settings
    model = AutoModelForCausalLM.from_pretrained(
        job.base,
        dtype=getattr(torch, job.compute_dtype),
        device_map=job.device,
        local_files_only=True,
        quantization_config=BitsAndBytesConfig(
            load_in_8bit=True,
            llm_int8_threshold=settings.outlier_threshold,
            llm_int8_skip_modules=_skipping.full_names(job),
        ),
    )
    modules = [name for name, module in model.named_modules() if isinstance(module, bitsandbytes.nn.Linear8bitLt)]
    _skipping.require_some(modules, "bitsandbytes")
    model.save_pretrained(job.out)
    return Quantized(modules)
