"""LLM.int8(): weights in INT8 per output row, activation outliers kept in 16 bits (Dettmers et al. 2022).

Needs no calibration. The weights are stored in INT8, so the artifact is what is loaded and measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from pipeline.checkpoint import Linear
from pipeline.quantizers import Quantized, QuantizeJob, QuantizerSettings

FORMAT = "bitsandbytes"
PACKAGES = ("bitsandbytes", "transformers", "torch")
ENVIRONMENT: Mapping[str, str] = {}
TOOLCHAIN = None


class Settings(QuantizerSettings):
    outlier_threshold: float = Field(default=6.0, ge=0)
    """Activation columns with a larger magnitude are computed in 16 bits; 0 computes all in INT8."""
    skip_modules: list[str] = Field(default=["lm_head"])
    """Modules left unquantized, by the end of their name."""


def check(settings: Settings, linears: Sequence[Linear]) -> list[str]:
    leaves = {layer.name.rsplit(".", 1)[-1] for layer in linears} | {"lm_head"}
    names = {layer.name for layer in linears} | leaves
    return [
        f"skip_modules: no module {name!r}; this model has {', '.join(sorted(leaves))}"
        for name in settings.skip_modules
        if name not in names
    ]


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
            llm_int8_skip_modules=list(settings.skip_modules),
        ),
    )
    model.save_pretrained(job.out)
    modules = [name for name, module in model.named_modules() if isinstance(module, bitsandbytes.nn.Linear8bitLt)]
    return Quantized(modules)
