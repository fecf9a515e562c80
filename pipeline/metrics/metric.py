"""What the declaration of a metric consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from pipeline.metrics.derive import Compute
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.exposure import Exposed
from pipeline.metrics.samples import Sample


class Narrows(StrEnum):
    """To what part of the evidence a metric can be asked of; see `pipeline.metrics.scope`."""

    WHOLE = "whole"
    """Always of everything."""
    WORKLOAD = "workload"
    """Of one speed workload at one concurrency."""
    EVAL_SET = "eval set"
    """Of one eval set."""
    CATEGORY = "category"
    """Of one eval set, or of one category of it."""


@dataclass(frozen=True)
class Metric:
    name: str
    """The column in pareto.csv; ends in the stored unit where it has one."""
    title: str
    unit: str
    """Unit of the stored value."""
    higher_is_better: bool | None
    """None where neither direction is better in itself."""
    display: Callable[[float], str]
    compute: Compute
    formula: str
    low: str | None = None
    """Name of the metric that is the lower bound of this one's 95 % interval."""
    high: str | None = None
    versus_baseline: bool = False
    """Compares to the baseline in itself, so a bound that is relative to the baseline's value means nothing."""
    sample: Callable[[VariantEvidence], Sample] | None = None
    """What the interval is over, where there is one: scored items, pairs of processes, tokens of text."""
    paired: str | None = None
    """Name of the metric that compares this one to the baseline turn by turn, or token by token: two variants are
    ranked by that, and a bound that is relative to the baseline must be on that."""
    narrows: Narrows = Narrows.WHOLE
    exact: bool = False
    """Counted, not measured: any difference between two variants is one."""
    exposed: Callable[[VariantEvidence], Exposed | None] | None = None
    """Of a count: the items that could have been counted, which tells what a count of 0 rules out; None where there is
    nothing to tell, as of the baseline against itself."""


def with_interval(metric: Metric, low: Compute, high: Compute) -> tuple[Metric, Metric, Metric]:
    """The metric, and the ends of its interval as metrics of their own under the names that it gives."""

    def end(name: str | None, compute: Compute, which: str, words: str) -> Metric:
        assert name, f"{metric.name} does not name its {words}"
        title, formula = f"{metric.title}, {which}", f"{words} of the 95 % interval of `{metric.name}`"
        return replace(
            metric, name=name, title=title, compute=compute, formula=formula, low=None, high=None, sample=None
        )

    return metric, end(metric.low, low, "low", "lower end"), end(metric.high, high, "high", "upper end")
