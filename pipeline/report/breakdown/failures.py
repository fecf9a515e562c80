"""What gave no number, or one that must not be used: failed variants, failed requests, INVALID readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pipeline.metrics import validity
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.latency import summarize
from pipeline.readings import Failure, FailureKind, Side
from pipeline.records import Status
from pipeline.report.breakdown.words import level


@dataclass(frozen=True)
class Refused:
    """Numbers that there are, but that must not be used."""

    variant: str
    what: str
    reason: str


@dataclass(frozen=True)
class Lost:
    """Requests of one kind that gave no reading."""

    variant: str
    side: Side
    where: str
    """The workload with its streams, or the step."""
    kind: FailureKind
    count: int
    reason: str
    """Of the first of them."""

    @property
    def words(self) -> str:
        """E.g. `variant, long-document × 8: 2 × out of memory`."""
        return f"{self.side.value}, {self.where}: {self.count} × {self.kind.value}"


def refused(variants: Sequence[VariantEvidence]) -> list[Refused]:
    return [Refused(e.variant, what, reason) for e in variants for what, reason in _refused(e)]


def _refused(evidence: VariantEvidence) -> Iterator[tuple[str, str]]:
    if evidence.speed.status is not Status.OK:
        return
    for reason in validity.record_reasons(evidence.speed):
        yield "every time, rate and ratio", reason
    for reason in validity.memory_reasons(evidence.speed):
        yield "peak memory", reason
    for readings in evidence.speed.workloads:
        at = level(readings.workload, readings.concurrency)
        for reason in validity.workload_reasons(readings):
            yield f"{at}: times, rates and ratios", reason
        for reason in validity.spread_reasons(summarize(readings), evidence.serving.max_spread):
            yield f"{at}: times and rates", reason


def lost(variants: Sequence[VariantEvidence]) -> list[Lost]:
    """Failures of the same variant, side, workload, concurrency and kind are counted together."""
    return [found for evidence in variants for found in _lost(evidence)]


def _lost(evidence: VariantEvidence) -> Iterator[Lost]:
    failures = evidence.speed.failures
    counts = Counter(_kind(failure) for failure in failures)
    for kind, count in counts.items():
        first = next(failure for failure in failures if _kind(failure) == kind)
        yield Lost(evidence.variant, first.side, _where(first), first.kind, count, first.reason)


def _kind(failure: Failure) -> tuple[object, ...]:
    return failure.side, failure.step, failure.workload, failure.concurrency, failure.kind


def _where(failure: Failure) -> str:
    if failure.workload is None:
        return failure.step
    return level(failure.workload, failure.concurrency or 1)


def unanswered(
    evidence: VariantEvidence, workload: str, concurrency: int, sides: Collection[Side] = (Side.VARIANT,)
) -> str | None:
    """Why one of these sides gave no reading of a workload at a concurrency: its first failure, if any."""
    key = (workload, concurrency)
    ours = (f for f in evidence.speed.failures if f.side in sides and (f.workload, f.concurrency) == key)
    first = next(ours, None)
    return f"{first.side.value}: {first.kind.value}: {first.reason}" if first else None
