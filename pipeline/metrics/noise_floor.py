"""What the batch alone changes: how far quality may move though neither the model nor the items did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.metrics.power import Z
from pipeline.quality_records import QualityRecord


@dataclass(frozen=True)
class NoiseFloor:
    """From items that were answered twice, in their batch and alone, by the variant and by the baseline."""

    items: int
    """Answered twice, by either."""
    differing: int
    """Of these, answers whose text is another one."""
    flips: int
    """Of these, answers whose pass/fail is another one."""
    delta: float
    """How far `quality_delta` moves by the batch alone in 95 % of cases, as a share."""

    @property
    def differing_share(self) -> float:
        return self.differing / self.items

    def holds(self, delta: float) -> bool:
        """This difference of quality may be the batch's doing, so it should not rank one variant over another."""
        return abs(delta) <= self.delta


def noise_floor(
    ours: Sequence[tuple[QualityRecord, float]], theirs: Sequence[tuple[QualityRecord, float]]
) -> NoiseFloor | str:
    """The noise floor of a variant's delta over its eval sets, or the reason why it is not known.

    In another batch each item flips with probability p = flips / items answered twice, as likely up as down. So the
    mean of a set of n items has the variance p / n, and the delta moves by 1.96 · √(Σ w² · p / n) over the sets of both
    sides, with weights w that sum to 1 on each side. Items that are graded count only where they pass or no longer do.

    Args:
        ours: each set's record and its weight.
        theirs: the baseline's; empty for the baseline itself.
    """
    both = [*ours, *theirs]
    known = [(record.invariance, weight) for record, weight in both if record.invariance and record.invariance.items]
    if len(known) < len(both) or not ours:
        lacking = next((record for record, _ in both if not (record.invariance and record.invariance.items)), None)
        where = f" of {lacking.variant} on {lacking.eval_set}" if lacking else ""
        return f"no items{where} were asked again one by one (evaluate.invariance_items)"
    found = [invariance for invariance, _ in known]
    return NoiseFloor(
        items=sum(invariance.items for invariance in found),
        differing=sum(invariance.differing for invariance in found),
        flips=sum(len(invariance.flips) for invariance in found),
        delta=Z * math.sqrt(_variance(both[: len(ours)]) + _variance(both[len(ours) :])),
    )


def _variance(parts: Sequence[tuple[QualityRecord, float]]) -> float:
    """Of one side's quality, by the batch alone."""
    total = math.fsum(weight for _, weight in parts)
    return math.fsum((weight / total) ** 2 * _flip_share(record) / _scored(record) for record, weight in parts)


def _flip_share(record: QualityRecord) -> float:
    assert record.invariance is not None, "else the noise floor is not known"
    return len(record.invariance.flips) / record.invariance.items


def _scored(record: QualityRecord) -> int:
    assert record.overall is not None, "else it was not scored"
    return record.overall.n
