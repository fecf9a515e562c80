"""One part of the evidence: a workload at a concurrency, an eval set, or a category of it.

A metric of a part is the metric itself, computed from the evidence narrowed to that part, so every metric that can be
narrowed has its part's value, interval and sample without a declaration of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from pipeline.metrics.evidence import ScoredSet, VariantEvidence
from pipeline.metrics.exposure import Exposed
from pipeline.metrics.metric import Metric, Narrows
from pipeline.metrics.samples import Sample
from pipeline.records import Reading, Status, missing


@dataclass(frozen=True)
class Scope:
    """None stands for what the report's table has: the deciding workload at its own concurrency, all eval sets."""

    workload: str | None = None
    concurrency: int | None = None
    """Of `workload`; None: its own."""
    eval_set: str | None = None
    category: str | None = None
    """Of `eval_set`."""

    def __str__(self) -> str:
        """In words, e.g. `instruction at 8 streams`; empty for the whole."""
        streams = "" if self.concurrency is None else f" at {self.concurrency} stream{'s' * (self.concurrency != 1)}"
        speed = f"{self.workload}{streams}" if self.workload else ""
        return speed or "/".join(part for part in (self.eval_set, self.category) if part)


WHOLE = Scope()


@dataclass(frozen=True)
class Measured:
    """A metric of one part of one variant. Without an interval, `low` and `high` are None."""

    value: Reading
    low: Reading | None = None
    high: Reading | None = None
    sample: Sample | None = None
    exposed: Exposed | None = None
    """Of a count: what could have been counted."""


def measure(evidence: VariantEvidence, metric: Metric, scope: Scope = WHOLE) -> Measured:
    """The metric of one part; missing, with the reason, where that part was not measured."""
    from pipeline.metrics.catalogue import BY_NAME

    part = narrow(evidence, scope)
    absent = _absent(part, scope)
    if absent:
        return Measured(missing(absent))
    low, high = (BY_NAME[name].compute(part) if name else None for name in (metric.low, metric.high))
    sample = metric.sample(part) if metric.sample else None
    return Measured(metric.compute(part), low, high, sample, metric.exposed(part) if metric.exposed else None)


def _absent(part: VariantEvidence, scope: Scope) -> str | None:
    """That the benchmark or the evaluation went well but has no such part."""
    if scope.workload and part.speed.status is Status.OK and part.readings(scope.workload) is None:
        return f"the benchmark did not measure {scope}"
    return f"no item of {scope} was scored" if scope.eval_set and not part.quality else None


def narrow(evidence: VariantEvidence, scope: Scope) -> VariantEvidence:
    """The evidence of variant and baseline on one part alone."""
    if scope == WHOLE:
        return evidence
    part = evidence
    if scope.workload:
        own = part.concurrency.get(scope.workload, 1)
        level = own if scope.concurrency is None else scope.concurrency
        if (scope.workload, level) != (part.headline, own):
            # More pairs of processes follow for the deciding workload alone: why they ended says nothing of others.
            part = replace(part, speed=part.speed.model_copy(update={"stop": None}))
        part = replace(part, headline=scope.workload, concurrency={**part.concurrency, scope.workload: level})
    if scope.eval_set:
        scored = (_category(found, scope.category) for found in part.quality if found.name == scope.eval_set)
        part = replace(part, quality=tuple(found for found in scored if found is not None))
    return replace(part, baseline=narrow(part.baseline, scope) if part.baseline else None)


def _category(scored: ScoredSet, category: str | None) -> ScoredSet | None:
    """The items of one category, and the record as if there were no others; None where there are none."""
    if category is None:
        return scored
    items = tuple(item for item in scored.items if item.category == category)
    if scored.items and not items:
        return None
    record = scored.record.model_copy(
        update={
            "overall": scored.record.categories.get(category),
            "categories": {name: found for name, found in scored.record.categories.items() if name == category},
            "finish_reasons": dict(Counter(item.finish_reason for item in items)),
            "flaws": dict(Counter(item.flaw for item in items if item.flaw)),
            "invariance": None,
        }
    )
    return replace(scored, record=record, items=items)


def unfit(metric: Metric, scope: Scope) -> str | None:
    """Why a metric cannot be asked of such a part, in words; None where it can."""
    if scope.category and not scope.eval_set:
        return "category: give the eval_set that it is of"
    if scope.concurrency is not None and not scope.workload:
        return "concurrency: give the workload that it is of"
    if scope.workload and metric.narrows is not Narrows.WORKLOAD:
        return f"workload: {metric.name} is not of one workload"
    if scope.eval_set and metric.narrows not in (Narrows.EVAL_SET, Narrows.CATEGORY):
        return f"eval_set: {metric.name} is not of one eval set"
    if scope.category and metric.narrows is not Narrows.CATEGORY:
        return f"category: {metric.name} is not of one category"
    return None
