"""A bounded ladder of retries for a Hessian that is not positive-definite, each try recorded.

GPTQ inverts H + d · mean(diag H) · I by a Cholesky factorisation, with H the layer's Hessian and d the damping
(Frantar et al. 2022, section 3.3 and algorithm 1). GPTQModel 7.6 (quantization/gptq.py, `hessian_inverse`), where that
fails, walks d up to 1, then adds to the diagonal, and in the end rounds the layer to nearest, telling only its log.
Here each layer gets as many larger dampings as the settings allow; one that needs more is an error. GPTQModel's threads
print such an error and end the process (utils/threadx.py), so that it stands last in the worker's log.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from pipeline.artifact_records import Attempt

NOT_POSITIVE_DEFINITE = "the Hessian is not positive-definite"


def rungs(start: float, step: float, retries: int) -> list[float]:
    """The dampings to try, shares of the Hessian's mean diagonal."""
    return [round(start + k * step, 10) for k in range(retries + 1)]


def with_ladder(
    plain: Callable[..., tuple[Any, float]], step: float, retries: int, attempts: list[Attempt]
) -> Callable[[Any, Any], tuple[Any, float]]:
    """GPTQModel's `GPTQ.hessian_inverse` with retries; what a layer tried is added to `attempts` if it needed any.

    The first rung is the layer's own `damp_percent`. Layers that share their input share one inverse, so only the first
    of them is named.
    """

    def hessian_inverse(task: Any, hessian: Any) -> tuple[Any, float]:
        tried: list[Attempt] = []
        module = _name(task)
        for damping in rungs(task.qcfg.damp_percent, step, retries):
            factor = _factor(plain, task, hessian, damping)
            tried.append(
                Attempt(
                    settings={"module": module, "damp_percent": damping},
                    failure=NOT_POSITIVE_DEFINITE if factor is None else None,
                )
            )
            if factor is not None:
                if len(tried) > 1:
                    attempts.extend(tried)
                return factor, damping
        named = ", ".join(f"{attempt.settings['damp_percent']:g}" for attempt in tried)
        raise RuntimeError(
            f"{module}: {NOT_POSITIVE_DEFINITE} at damp_percent {named}; give more calibration samples, or raise "
            "damp_percent, damp_auto_increment or damp_retries"
        )

    return hessian_inverse


def without_mock(plain: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """GPTQModel's `GPTQ.mock_hessian_inverse`, by which it rounds a layer to nearest when its error is not a number."""

    def mock_hessian_inverse(task: Any, hessian: Any) -> Any:
        raise RuntimeError(
            f"{_name(task)}: the error of the quantized layer is not a number; the base model's weights or its "
            "activations on the calibration text hold NaN or infinity"
        )

    return mock_hessian_inverse


def in_order(attempts: Sequence[Attempt], modules: Sequence[str]) -> list[Attempt]:
    """Attempts by the order of `modules`: layers are quantized by threads, which end in any order."""
    place = {name: index for index, name in enumerate(modules)}
    return sorted(attempts, key=lambda attempt: place.get(attempt.settings["module"], len(place)))


def _factor(plain: Callable[..., tuple[Any, float]], task: Any, hessian: Any, damping: float) -> Any | None:
    """The inverse's factor at this damping alone; None where there is none, with the Hessian as it was."""
    diagonal = hessian.diagonal()
    before = diagonal.clone()
    # A layer's settings are its own copy, but other threads may read it.
    settings, task.qcfg = task.qcfg, copy.copy(task.qcfg)
    task.qcfg.damp_percent, task.qcfg.damp_auto_increment = damping, 0.0
    try:
        factor, _ = plain(task, hessian)
    finally:
        task.qcfg = settings
    # GPTQModel leaves the diagonal changed where it succeeded only by adding to it.
    if factor is not None and bool((diagonal == before).all()):
        return factor
    diagonal.copy_(before)
    return None


def _name(task: Any) -> str:
    """The layer's full name; GPTQModel's task itself knows only the part inside its block."""
    named = getattr(task, "_named_module", None)
    return str(named.full_name if named is not None else task.name)
