"""All that is known about one variant: the records of its stages, as read. Metrics are computed from this."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.metrics import intervals, latency
from pipeline.records import (
    Interval,
    ItemResult,
    Outcome,
    QualityRecord,
    QuantizeRecord,
    SpeedRecord,
    Status,
)


@dataclass(frozen=True)
class ScoredSet:
    """One eval set as one variant answered it. `weight` is relative to the other sets'."""

    record: QualityRecord
    items: tuple[ItemResult, ...]
    weight: float

    @property
    def name(self) -> str:
        return self.record.eval_set


@dataclass(frozen=True)
class VariantEvidence:
    variant: str
    quantize: QuantizeRecord
    speed: SpeedRecord
    quality: tuple[ScoredSet, ...]
    headline: str
    """The workload whose speed stands in the table."""
    baseline: VariantEvidence | None = field(default=None, repr=False)
    """What this variant is compared to; None for the baseline itself."""
    seed: int = 0

    @property
    def is_baseline(self) -> bool:
        return self.baseline is None

    @property
    def status(self) -> Status:
        """`ok` only when every stage was."""
        return next((record.status for _, record in self.outcomes() if record.status is not Status.OK), Status.OK)

    @property
    def reason(self) -> str | None:
        """Why the status is not ok: the first stage that failed, and what it said."""
        return next((f"{stage}: {record.reason}" for stage, record in self.outcomes() if record.reason), None)

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """The record of each stage in the order in which they run."""
        yield "quantize", self.quantize
        yield "benchmark", self.speed
        for scored in self.quality:
            yield f"evaluate {scored.name}", scored.record

    @property
    def artifact_sha256(self) -> str | None:
        return self.quantize.artifact_sha256

    @property
    def items(self) -> int:
        """How many items were scored."""
        return sum(len(scored.items) for scored in self.quality)

    @cached_property
    def workloads(self) -> dict[str, latency.WorkloadSpeed]:
        """Speed by workload; empty unless the benchmark is ok."""
        if self.speed.status is not Status.OK:
            return {}
        return {readings.workload: latency.summarize(readings) for readings in self.speed.workloads}

    @cached_property
    def quality_interval(self) -> Interval | str:
        """Weighted mean score over the eval sets, or the reason why there is none."""
        unscored = _why_unscored(self)
        if unscored:
            return unscored
        return intervals.weighted([(_overall(scored), scored.weight) for scored in self.quality])

    @cached_property
    def delta_interval(self) -> Interval | str:
        """Weighted mean of variant - baseline on the same items, or the reason why there is none."""
        if self.baseline is None:
            return "the baseline is not compared to itself"
        unscored = _why_unscored(self) or _why_unscored(self.baseline)
        if unscored:
            return unscored
        theirs = {scored.name: scored.items for scored in self.baseline.quality}
        strata = [
            (intervals.difference(scored.items, theirs[scored.name], self.seed), scored.weight)
            for scored in self.quality
        ]
        return intervals.weighted(strata, lowest=-1)

    @cached_property
    def flips(self) -> intervals.Flips | str:
        """Items whose pass/fail differs from the baseline's, over all eval sets, or the reason why there are none."""
        if self.baseline is None:
            return intervals.Flips((), ())
        unscored = _why_unscored(self) or _why_unscored(self.baseline)
        if unscored:
            return unscored
        theirs = {scored.name: scored.items for scored in self.baseline.quality}
        found = [intervals.flips(scored.items, theirs[scored.name]) for scored in self.quality]
        return intervals.Flips(
            lost=tuple(pair for part in found for pair in part.lost),
            won=tuple(pair for part in found for pair in part.won),
        )


def _overall(scored: ScoredSet) -> Interval:
    assert scored.record.overall is not None
    return scored.record.overall


def _why_unscored(evidence: VariantEvidence) -> str | None:
    """Why this variant has no overall quality: an eval set that was not scored."""
    for scored in evidence.quality:
        if scored.record.status is not Status.OK:
            return f"{evidence.variant} was not scored on {scored.name}: {scored.record.reason}"
        if scored.record.overall is None:
            return f"the record of {evidence.variant} on {scored.name} has no overall score"
    return None
