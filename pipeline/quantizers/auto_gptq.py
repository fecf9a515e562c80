"""GPTQ by the archived package auto-gptq itself: layer-wise rounding that corrects each column's error.

The method is that of Frantar et al. 2022. For teams that ship what this package makes; `gptqmodel_gptq` is its
maintained successor.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from pipeline import progress
from pipeline.artifact_records import Attempt
from pipeline.calibration import CalibrationSettings
from pipeline.model_shape import ModelShape
from pipeline.quantizers import (
    DTYPE_BYTES,
    Kernel,
    Quantized,
    QuantizeJob,
    QuantizerSettings,
    _archived,
    _gptq_damping,
    _gptqmodel,
    group_size_problems,
)

FORMAT = "gptq"
PACKAGES = ("auto-gptq", "transformers", "torch")
ENVIRONMENT: Mapping[str, str] = {}
TOOLCHAIN = "autogptq-autoawq@da473d0052da"

MODEL_TYPES = (
    *("bloom", "codegen", "falcon", "gemma", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "llama", "mistral", "mixtral"),
    *("opt", "qwen2"),
)
"""Those that auto-gptq knows and that need no code from the model's own repository."""

GROUP_SIZES = (-1, 16, 32, 64, 128, 256, 512, 1024)
"""Those that the engines' kernels know."""

PACK_MULTIPLE = 32
"""Rows and columns of a layer are packed so many at a time; auto-gptq cuts off what is over."""

NO_LONGER_READ = ("is_marlin_format", "model_name_or_path", "model_file_base_name")
"""Entries of auto-gptq's config: today's loaders refuse the first, the others name a folder and a file."""

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
    sym: Literal[True] = True
    """Zero lies in the middle of the range. auto-gptq stores other zero points less one, so that 0 overflows, and
    today's loaders refuse them."""
    desc_act: bool = False
    """Quantize columns in order of falling activation size; better, but slower to run in some kernels."""
    static_groups: bool = False
    """Fix all groups' scales before the first column is quantized."""
    true_sequential: bool = True
    """Calibrate a block's later layers on the output of its already quantized ones."""
    damp_percent: float = Field(default=0.01, gt=0, lt=1)
    """Share (not per cent) of the mean diagonal added to the Hessian so that it can be inverted."""
    damp_auto_increment: float = Field(default=0.05, gt=0, lt=1)
    """Added to the damping of a layer each time its Hessian is still not positive-definite…"""
    damp_retries: int = Field(default=5, ge=0, le=100)
    """…at most so many times."""
    cache_examples_on_gpu: bool = True
    """Keep the inputs of the layers on the GPU while the base is quantized there; in main memory otherwise."""
    calibration: CalibrationSettings

    def working_bytes(self, model: ModelShape, parameters: int, tokens: int, device: str) -> dict[str, float]:
        # Those of a block that share a pass hold X·Xᵀ in float32 at once, and the inverse of one is worked on.
        inputs = {layer.name.rsplit(".", 1)[-1]: layer.in_features for layer in model.linears}
        width, dtype = model.hidden_size or model.widest_input, _archived.WORKING_DTYPE[device]
        return {
            f"weights in {dtype}": float(DTYPE_BYTES[dtype] * parameters),
            "a block's input and output on the calibration text": 2.0 * DTYPE_BYTES[dtype] * tokens * width,
            "a block's Hessians": 4.0 * (sum(n**2 for n in inputs.values()) + 2 * model.widest_input**2),
        }

    def tokens_needed(self, model: ModelShape) -> tuple[int, str]:
        return (
            model.widest_input,
            "with fewer tokens than a layer has inputs, its Hessian can be inverted by damping alone",
        )

    def kernel(self, device: str, compute_dtype: str) -> Kernel:
        return KERNELS[device].fitting(self.bits, self.group_size, self.sym)


def check(settings: Settings, model: ModelShape) -> list[str]:
    found = group_size_problems(settings.group_size, model, GROUP_SIZES)
    odd = [layer for layer in model.linears if layer.in_features % PACK_MULTIPLE or layer.out_features % PACK_MULTIPLE]
    if odd:
        found.append(
            f"bits: {odd[0].name} has {odd[0].in_features} input and {odd[0].out_features} output features, but "
            f"auto-gptq packs multiples of {PACK_MULTIPLE} only; use gptqmodel_gptq"
        )
    highest = settings.damp_percent + settings.damp_retries * settings.damp_auto_increment
    if highest >= 1:
        found.append(
            f"damp_retries: the last try would damp by {highest:g}, but it must stay under 1; lower damp_percent, "
            "damp_auto_increment or damp_retries"
        )
    return found + _archived.model_type_problems(model, MODEL_TYPES, "auto-gptq", "gptqmodel_gptq")


def quantize(job: QuantizeJob) -> Quantized:
    """Raises RuntimeError: a layer's Hessian is not positive-definite at any damping."""
    import torch
    from auto_gptq import BaseQuantizeConfig
    from auto_gptq.modeling.auto import GPTQ_CAUSAL_LM_MODEL_MAP
    from auto_gptq.quantization import GPTQ

    settings: Settings = job.settings
    torch.manual_seed(job.seed)
    model = _archived.load(job)
    before = _archived.tensor_names(model)
    config = BaseQuantizeConfig(
        bits=settings.bits,
        group_size=settings.group_size,
        damp_percent=settings.damp_percent,
        desc_act=settings.desc_act,
        static_groups=settings.static_groups,
        sym=settings.sym,
        true_sequential=settings.true_sequential,
    )
    # What its from_pretrained makes, which demands CUDA and runs code from the model's repository.
    quantizer = GPTQ_CAUSAL_LM_MODEL_MAP[model.config.model_type](model, False, config)
    samples = [{"input_ids": list(ids), "attention_mask": [1] * len(ids)} for ids in job.calibration]
    attempts: list[Attempt] = []
    modules = {module: name for name, module in model.named_modules()}
    with (
        _layers_reported(),
        _on(job.device),
        _gptqmodel.replaced(GPTQ, "fasterquant", lambda plain: with_ladder(plain, settings, modules, attempts)),
    ):
        quantizer.quantize(samples, cache_examples_on_gpu=settings.cache_examples_on_gpu)
    kept = {name: value for name, value in config.to_dict().items() if name not in NO_LONGER_READ}
    return Quantized(_archived.save(model, before, kept, job), attempts)


@contextlib.contextmanager
def _on(device: str) -> Iterator[None]:
    """Let auto-gptq quantize on this device. This is all that it takes on a CPU.

    It names a GPU in two places. `CUDA_0` is where a layer is moved to while it is quantized, and
    `torch.cuda.synchronize` stands before a clock reading for its log.
    """
    import torch
    from auto_gptq.modeling import _base

    if device == "cuda":
        yield
        return
    with (
        _gptqmodel.replaced(_base, "CUDA_0", lambda gpu: torch.device(device)),
        _gptqmodel.replaced(torch.cuda, "synchronize", lambda plain: lambda: None),
    ):
        yield


def with_ladder(
    plain: Callable[..., Any], settings: Settings, modules: Mapping[Any, str], attempts: list[Attempt]
) -> Callable[..., Any]:
    """auto-gptq's `GPTQ.fasterquant`, which ends with the first Hessian that is not positive-definite, with retries.

    What a layer tried is added to `attempts` if it needed more than one damping. `modules` names the layers.
    """

    def fasterquant(task: Any, *, percdamp: float, **options: Any) -> Any:
        import torch

        module, hessian, tried = modules[task.layer], task.H, list[Attempt]()
        for damping in _gptq_damping.rungs(percdamp, settings.damp_auto_increment, settings.damp_retries):
            task.H = hessian.clone()  # it is damped in place
            try:
                done = plain(task, percdamp=damping, **options)
            except torch.linalg.LinAlgError:
                tried.append(_attempt(module, damping, _gptq_damping.NOT_POSITIVE_DEFINITE))
                continue
            if tried:
                attempts.extend([*tried, _attempt(module, damping, None)])
            return done
        named = ", ".join(f"{attempt.settings['damp_percent']:g}" for attempt in tried)
        raise RuntimeError(
            f"{module}: {_gptq_damping.NOT_POSITIVE_DEFINITE} at damp_percent {named}; give more calibration samples, "
            "or raise damp_percent, damp_auto_increment or damp_retries"
        )

    return fasterquant


def _attempt(module: str, damping: float, failure: str | None) -> Attempt:
    return Attempt(settings={"module": module, "damp_percent": damping}, failure=failure)


class _LayerProgress(logging.Handler):
    """Reads in auto-gptq's log how far it is."""

    BEGINS = re.compile(r"Start quantizing layer (\d+)/(\d+)")

    def emit(self, record: logging.LogRecord) -> None:
        found = self.BEGINS.search(record.getMessage())
        if found:
            progress.report(int(found[1]) - 1, int(found[2]), "layers")


@contextlib.contextmanager
def _layers_reported() -> Iterator[None]:
    log, handler = logging.getLogger("auto_gptq.modeling._base"), _LayerProgress()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
