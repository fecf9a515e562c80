"""What the batch alone changes: how far quality may move though neither the model nor the items did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.quality_records import Invariance, QualityRecord


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
    """The most that the batch moves `quality_delta`, as a share, if it changes all items as it did these."""

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

    Each side's share of flips, Σ w · flips / items over the sets, is the most that its quality moves: all flips may go
    one way. The delta moves by both sides' together. It is an estimate from the sampled items. Items that are graded
    count as flips only where they pass or no longer do.

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
        delta=_flip_share(known[: len(ours)]) + _flip_share(known[len(ours) :]),
    )


def _flip_share(parts: Sequence[tuple[Invariance, float]]) -> float:
    total = math.fsum(weight for _, weight in parts)
    return math.fsum(weight * len(found.flips) / found.items for found, weight in parts) / total if parts else 0.0
