"""GPTQ: layer-wise rounding that corrects each column's error with second-order information (Frantar et al. 2022)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from pipeline.artifact_records import Attempt
from pipeline.model_shape import ModelShape
from pipeline.quantizers import (
    DTYPE_BYTES,
    Kernel,
    Quantized,
    QuantizeJob,
    QuantizerSettings,
    _gptq_damping,
    _gptqmodel,
)

FORMAT = "gptq"
PACKAGES = _gptqmodel.PACKAGES
ENVIRONMENT = _gptqmodel.ENVIRONMENT
TOOLCHAIN = None
WORKING_DTYPE = {"cpu": "float32", "cuda": "float16"}
"""On a CPU float32 is finer and, measured here, 2.7 times faster than float16, which has few kernels there."""


class Override(QuantizerSettings):
    """What some layers may have of their own. Bits, group size and symmetry are not among it: transformers reads one of
    each for all layers of a checkpoint (optimum 2.3, gptq/quantizer.py)."""

    damp_percent: float | None = Field(default=None, gt=0, lt=1)
    mse: float | None = Field(default=None, ge=0)
    act_group_aware: bool | None = None
    static_groups: bool | None = None


class Settings(_gptqmodel.Settings):
    bits: Literal[2, 3, 4, 8] = 4
    sym: bool = True
    """Whether zero lies in the middle of the range, so that no zero points are needed."""
    desc_act: bool = False
    """Quantize columns in order of falling activation size; better, but slower to run in some kernels."""
    act_group_aware: bool = True
    """Order columns by activation size within groups, which costs nothing when the model runs (Gafni et al. 2025,
    "Dual precision quantization", GAR)."""
    static_groups: bool = False
    """Fix all groups' scales before the first column is quantized."""
    true_sequential: bool = True
    """Calibrate a block's later layers on the output of its already quantized ones."""
    mse: float = Field(default=0.0, ge=0)
    """Exponent of the error that each group's clipped range is searched for; 0: no search, the range is that of the
    weights. 2.4 is the value of the paper's own code."""
    damp_percent: float = Field(default=0.05, gt=0, lt=1)
    """Share (not per cent) of the mean diagonal added to the Hessian so that it can be inverted."""
    damp_auto_increment: float = Field(default=0.05, gt=0, lt=1)
    """Added to the damping of a layer each time its Hessian is still not positive-definite…"""
    damp_retries: int = Field(default=5, ge=0, le=100)
    """…at most so many times."""
    gptaq_alpha: float | None = Field(default=None, ge=0)
    """Weight of the error that the layers before have left in the input (Li et al. 2025, "GPTAQ", which takes 0.25);
    None: plain GPTQ."""
    foem_beta: float | None = Field(default=None, ge=0)
    """Weight of the error's first-order term (Zheng et al. 2026, "FOEM", which takes 0.1 to 0.25); None: none."""
    format: Literal["gptq", "gptq_v2"] = "gptq"
    """How zero points are stored: less one, as most engines read them, or as they are."""
    dynamic: dict[str, Override] = Field(default={})
    """Regular expression over full module names → what those layers have of their own. The first that fits counts."""

    def working_bytes(self, model: ModelShape, parameters: int, tokens: int, device: str) -> dict[str, float]:
        # One block's layers wait together; each holds X·Xᵀ in float32, and its inverse while it is worked on.
        inputs = {layer.name.rsplit(".", 1)[-1]: layer.in_features for layer in model.linears}
        dtype = WORKING_DTYPE[device]
        return {
            f"weights in {dtype}": float(DTYPE_BYTES[dtype] * parameters),
            **self.search_bytes(model, tokens, dtype),
            "a block's Hessians": 4.0 * (sum(n**2 for n in inputs.values()) + 2 * model.widest_input**2),
        }

    def tokens_needed(self, model: ModelShape) -> tuple[int, str]:
        return (
            model.widest_input,
            "with fewer tokens than a layer has inputs, its Hessian can be inverted by damping alone",
        )

    def kernel(self, device: str, compute_dtype: str) -> Kernel:
        return _gptqmodel.GPTQ_KERNELS[device].fitting(self.bits, self.group_size, self.sym)


def check(settings: Settings, model: ModelShape) -> list[str]:
    return [*_gptqmodel.check(settings, model), *_combination_problems(settings), *_dynamic_problems(settings, model)]


def _combination_problems(settings: Settings) -> Iterator[str]:
    yield from _order_problems("", settings)
    yield from _ladder_problems("damp_retries", settings)


def _ladder_problems(place: str, settings: Settings) -> Iterator[str]:
    """A ladder of dampings that would leave the range; `place` is the setting that is told of it."""
    highest = settings.damp_percent + settings.damp_retries * settings.damp_auto_increment
    if highest >= 1:
        yield (
            f"{place}: the last try would damp by {highest:g}, but it must stay under 1; lower damp_percent, "
            "damp_auto_increment or damp_retries"
        )


def _order_problems(place: str, settings: Settings) -> Iterator[str]:
    """What does not go together in the order of columns; `place` stands before the setting's name."""
    group_aware, static = settings.act_group_aware, settings.static_groups
    if group_aware and settings.group_size == -1:
        yield f"{place}act_group_aware: true, its default, needs groups, but group_size is -1; set it to false"
    if static and settings.group_size == -1:
        yield f"{place}static_groups: true needs groups, but group_size is -1; set it to false"
    if group_aware and settings.desc_act:
        yield f"{place}act_group_aware: true, its default, excludes desc_act: true; set one of them to false"
    # GPTQModel 7.6 takes the groups in natural order, and then moves columns (quantization/gptq.py, `quantize`).
    if group_aware and static:
        yield f"{place}act_group_aware: true, its default, excludes static_groups: true; set one of them to false"


def _dynamic_problems(settings: Settings, model: ModelShape) -> Iterator[str]:
    names = [layer.name for layer in _gptqmodel.kept(settings.skip_modules, model.linears)]
    for pattern, override in settings.dynamic.items():
        place = f"dynamic.{pattern}"
        try:
            if not any(re.match(pattern, name) for name in names):
                yield f"{place}: fits no quantized module; they are named like {names[0] if names else 'none'}"
        except re.error as error:
            yield f"{place}: not a regular expression ({error})"
        own = settings.model_copy(update=override.model_dump(exclude_none=True))
        ordered = {"act_group_aware", "static_groups"} & override.model_fields_set
        if ordered:
            yield from _order_problems(f"{place}.", own)
        if override.damp_percent is not None:
            yield from _ladder_problems(f"{place}.damp_percent", own)


def quantize(job: QuantizeJob) -> Quantized:
    from gptqmodel import BACKEND
    from gptqmodel.quantization.gptq import GPTQ

    settings: Settings = job.settings
    attempts: list[Attempt] = []
    step, retries = settings.damp_auto_increment, settings.damp_retries
    with ExitStack() as stack:
        for name, make in {
            "hessian_inverse": lambda plain: _gptq_damping.with_ladder(plain, step, retries, attempts),
            "mock_hessian_inverse": _gptq_damping.without_mock,
        }.items():
            stack.enter_context(_gptqmodel.replaced(GPTQ, name, make))
        done = _gptqmodel.quantize(job, config(job), BACKEND.AUTO, WORKING_DTYPE[job.device], settings.batch_size)
    if settings.skip_modules:
        _gptqmodel.add_to_config(job.out, {"modules_in_block_to_quantize": [sorted(done.modules)]})
    return replace(done, attempts=[*_gptq_damping.in_order(attempts, done.modules), *done.attempts])


def config(job: QuantizeJob) -> Any:
    """GPTQModel's config for the job's settings."""
    from gptqmodel.quantization.config import FORMAT as GPTQMODEL_FORMAT
    from gptqmodel.quantization.config import FOEMConfig, GPTAQConfig, GPTQConfig

    settings: Settings = job.settings
    shared = _gptqmodel.config_arguments(job)
    overrides = {f"+:{pattern}": own.model_dump(exclude_none=True) for pattern, own in settings.dynamic.items()}
    alpha, beta = settings.gptaq_alpha, settings.foem_beta
    return GPTQConfig(
        bits=settings.bits,
        sym=settings.sym,
        desc_act=settings.desc_act,
        act_group_aware=settings.act_group_aware,
        static_groups=settings.static_groups,
        true_sequential=settings.true_sequential,
        mse=settings.mse,
        damp_percent=settings.damp_percent,
        damp_auto_increment=settings.damp_auto_increment,
        format=GPTQMODEL_FORMAT(settings.format),
        gptaq=GPTAQConfig(alpha=alpha) if alpha is not None and beta is None else None,
        foem=FOEMConfig(alpha=alpha or 0.0, beta=beta) if beta is not None else None,
        **{**shared, "dynamic": {**shared["dynamic"], **overrides} or None},
    )
