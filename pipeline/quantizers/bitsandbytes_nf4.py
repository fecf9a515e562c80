"""NF4 and FP4: 4-bit weights in blocks of 64 that share a scale (Dettmers et al. 2023, "QLoRA", section 3).

Needs no calibration. On a CPU with AVX512-BF16, bitsandbytes 0.50.2 repacks a layer at its first pass and turns that
back in saving, but without double quantization leaves the scales transposed (functional.py,
`_convert_weight_packed_for_cpu_inverse`): what is saved after a pass loads as noise. So the weights are saved before
any pass, and what was saved is loaded and compared, for the next such fault.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pipeline import checkpoint, errors, store
from pipeline.artifact_records import Attempt
from pipeline.model_shape import ModelShape
from pipeline.quantizers import Quantized, QuantizeJob, QuantizerSettings, _skipping

FORMAT = "bitsandbytes"
PACKAGES = ("bitsandbytes", "transformers", "torch")
ENVIRONMENT: Mapping[str, str] = {}
TOOLCHAIN = None
DIFFERENCE_LIMIT = 0.01
"""Norm of a difference ÷ norm of what it differs from. 4-bit rounding itself makes about 0.08 of a layer's weights."""
PROMPT_TOKENS = 32
CPU_BLOCK_ROWS = 32
CPU_BLOCK_COLUMNS = 64
"""The fused CPU kernel takes whole blocks of so many outputs and inputs (functional.py,
`_convert_weight_packed_for_cpu`)."""


class Settings(QuantizerSettings):
    quant_type: Literal["nf4", "fp4"] = "nf4"
    """The 16 values a weight may have: quantiles of a normal distribution, or 4-bit floats."""
    double_quantization: bool = True
    """Whether the scales are quantized too, to 8 bits: 4.1 bits per weight where it is 4.5 without."""
    skip_modules: list[str] = Field(default=["lm_head"])
    """Modules left unquantized, by their name or the last part of it."""
    store: Literal["auto", "packed", "at_load"] = "auto"
    """`packed`: the 4-bit weights, or a failure where they do not load as they were; `at_load`: the unquantized ones,
    quantized at each load; `auto`: packed where that loads as it was, else at_load."""

    def quantizes_at_load(self) -> bool:
        return self.store == "at_load"


def check(settings: Settings, model: ModelShape) -> list[str]:
    return _skipping.problems(settings.skip_modules, model)


def quantize(job: QuantizeJob) -> Quantized:
    """Quantize as in the module's words.

    Raises:
        RuntimeError: a layer does not fit this device's kernel, or `store` is `packed` and what was saved loads as
            something else.
    """
    import torch

    settings: Settings = job.settings
    config = _config(job)
    model = _load(job.base, job.device, dtype=torch.float16, quantization_config=config)
    modules = list(_layers(model))
    _skipping.require_some(modules, "bitsandbytes")
    _require_fitting(model, job.device)
    if settings.store == "at_load":
        _store_unquantized(job, config)
        return Quantized(modules, at_load="asked for by settings.store")
    model.save_pretrained(job.out)
    del model
    fault = _fault(job, config)
    if fault is None:
        return Quantized(modules)
    if settings.store == "packed":
        raise RuntimeError(f"{fault}; settings.store: auto or at_load stores the unquantized weights instead")
    _store_unquantized(job, config)
    attempts = [
        Attempt(settings={"store": "packed"}, failure=fault),
        Attempt(settings={"store": "at_load"}, failure=None),
    ]
    return Quantized(modules, attempts, at_load=fault)


def _config(job: QuantizeJob) -> Any:
    from transformers import BitsAndBytesConfig

    settings: Settings = job.settings
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=settings.quant_type,
        bnb_4bit_use_double_quant=settings.double_quantization,
        bnb_4bit_compute_dtype=job.compute_dtype,
        llm_int8_skip_modules=_skipping.full_names(job),
    )


def _load(folder: Path, device: str, **options: Any) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        folder, device_map=device, local_files_only=True, use_safetensors=True, **options
    )


def _layers(model: Any) -> dict[str, Any]:
    """Name → quantized layer."""
    import bitsandbytes

    return {name: module for name, module in model.named_modules() if isinstance(module, bitsandbytes.nn.Linear4bit)}


def _require_fitting(model: Any, device: str) -> None:
    unfit = [
        f"{name} has {layer.in_features} inputs and {layer.out_features} outputs"
        for name, layer in _layers(model).items()
        if layer.support_avx512bf16_for_cpu
        and (layer.in_features % CPU_BLOCK_COLUMNS or layer.out_features % CPU_BLOCK_ROWS)
    ]
    if device == "cpu" and unfit:
        raise RuntimeError(
            f"unsupported here: on this CPU bitsandbytes takes layers whose inputs are a multiple of "
            f"{CPU_BLOCK_COLUMNS} and outputs of {CPU_BLOCK_ROWS}, but {unfit[0]}, the first of {len(unfit)} that do "
            "not fit; name them in settings.skip_modules, or run on CUDA"
        )


def _fault(job: QuantizeJob, config: Any) -> str | None:
    """What is wrong with the saved model when it is loaded; None where it is what quantizing the base anew gives.

    Not compared with the model that was saved, as saving may change that one too.
    """
    import torch

    fresh = _load(job.base, job.device, dtype=torch.float16, quantization_config=config)
    try:
        loaded = _load(job.out, job.device, dtype=torch.float16)
        # Before the passes below: what a CPU has repacked does not de-quantize.
        weights, name = max(_weight_differences(fresh, loaded))
        logits = _difference(_logits(fresh), _logits(loaded))
    except Exception as error:
        # Whatever it is, the stored weights cannot be used.
        return f"the saved weights do not load: {errors.brief(error)}"
    if weights <= DIFFERENCE_LIMIT and logits <= DIFFERENCE_LIMIT:
        return None
    return (
        "the saved weights load as others than those in memory: weights differ by up to "
        f"{weights:.2g} of their norm ({name}), logits by {logits:.2g} (limit {DIFFERENCE_LIMIT})"
    )


def _weight_differences(ours: Any, theirs: Any) -> Iterator[tuple[float, str]]:
    """For each quantized layer of two models, how far its de-quantized weights are apart, and its name."""
    others = _layers(theirs)
    for name, layer in _layers(ours).items():
        yield _difference(_dequantized(layer), _dequantized(others[name])), name


def _dequantized(layer: Any) -> Any:
    from bitsandbytes.functional import dequantize_4bit

    return dequantize_4bit(layer.weight.data, layer.weight.quant_state)


def _difference(ours: Any, theirs: Any) -> float:
    """‖ours − theirs‖ ÷ ‖ours‖, infinite where either is not finite."""
    import torch

    share = float((ours.float() - theirs.float()).norm() / ours.float().norm())
    return share if torch.isfinite(torch.tensor(share)) else float("inf")


def _logits(model: Any) -> Any:
    import torch

    size = min(PROMPT_TOKENS, model.config.vocab_size)
    with torch.inference_mode():
        return model(input_ids=torch.arange(size, device=model.device)[None], use_cache=False).logits


def _store_unquantized(job: QuantizeJob, config: Any) -> None:
    shutil.rmtree(job.out)
    shutil.copytree(job.base, job.out, ignore=shutil.ignore_patterns(store.MANIFEST))
    store.write_json(job.out / checkpoint.QUANTIZATION_AT_LOAD, config.to_dict())
