"""The part of the catalogue that is percentiles of times on the headline workload."""

from __future__ import annotations

from pipeline.metrics import derive, display, samples
from pipeline.metrics.metric import Metric, Narrows, with_interval
from pipeline.metrics.request_times import Times


def percentile(name: str, percent: int, formula: str, paired: str | None = None) -> Metric:
    """A percentile of a time of the headline workload."""
    field = f"{name}_s_p{percent}"
    title = f"{name.upper()} P{percent}"
    return Metric(
        field,
        title,
        "s",
        False,
        display.milliseconds,
        derive.speed(field),
        formula,
        paired=paired,
        narrows=Narrows.WORKLOAD,
    )


def of_requests(name: str, percent: int, times: Times, formula: str) -> tuple[Metric, Metric, Metric]:
    """A percentile of a time that each request of the headline workload has once, with its interval."""
    field = f"{name}_s_p{percent}"
    metric = Metric(
        field,
        f"{name.upper()} P{percent}",
        "s",
        False,
        display.milliseconds,
        derive.percentile(field, times, percent),
        formula,
        low=f"{field}_ci_low",
        high=f"{field}_ci_high",
        sample=samples.timings(times, percent),
        narrows=Narrows.WORKLOAD,
    )
    low, high = (derive.percentile_end(field, times, percent, end) for end in (0, 1))
    return with_interval(metric, low, high)
