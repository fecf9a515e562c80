"""The order among variants that pass every gate: by score, and what breaks a tie of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from pipeline.metrics.axes import Axis
from pipeline.metrics.catalogue import BY_NAME
from pipeline.report import apart
from pipeline.report.rows import Row
from pipeline.report.score import Score, Weight

QUALITY = Axis(BY_NAME["quality"])
BYTES = Axis(BY_NAME["weight_bytes"])


class Step(StrEnum):
    """By what a variant was put behind the pick."""

    SCORE = "score"
    QUALITY = "quality"
    BYTES = "bytes"
    BASELINE = "baseline"
    NAME = "name"


@dataclass(frozen=True)
class Ranking:
    """Candidates and their scores.

    Those whose score is not told apart from the best one are tied. Of these stay those whose quality is not clearly
    below the best one's, then those with the fewest bytes of weights, then the baseline, then the first name.
    """

    candidates: tuple[Row, ...]
    baseline: Row
    weights: tuple[Weight, ...]
    scores: Mapping[str, Score]
    """Of every variant, candidate or not."""
    tie: float

    @cached_property
    def steps(self) -> list[tuple[Step, list[Row]]]:
        """Each step with those that are left after it."""
        left = list(self.candidates)
        found = []
        for step, keep in (
            (Step.SCORE, self._leading),
            (Step.QUALITY, self._best_quality),
            (Step.BYTES, _fewest_bytes),
            (Step.BASELINE, _baseline),
            (Step.NAME, _first_name),
        ):
            left = keep(left)
            found.append((step, left))
        return found

    @property
    def pick(self) -> Row | None:
        _, left = self.steps[-1]
        return left[0] if left else None

    @property
    def tied(self) -> list[str]:
        """Candidates beside the pick that, like it, are not told apart from the best score."""
        return [row.variant for row in self.left_after(Step.SCORE) if row is not self.pick]

    def left_after(self, step: Step) -> list[Row]:
        return next(left for each, left in self.steps if each is step)

    def lost_at(self, row: Row) -> Step:
        """What put this candidate, which is not the pick, behind."""
        return next(step for step, left in self.steps if row not in left)

    def tied_with(self, row: Row) -> list[str]:
        """Candidates whose score is not told apart from this candidate's; none where it has no score."""
        if row not in self.candidates or self._number(row) is None:
            return []
        return [
            other.variant
            for other in self.candidates
            if other is not row and self._number(other) is not None and not self._apart(row, other)
        ]

    @property
    def best(self) -> Row:
        """The candidate of the best score, of several the first one; any where nobody has a score."""
        return max(self.candidates, key=lambda row: self._number(row) or 0.0)

    def best_quality(self, rows: Sequence[Row]) -> Row:
        return max(rows, key=lambda row: apart.value(row, QUALITY) or 0.0)

    def _leading(self, rows: Sequence[Row]) -> list[Row]:
        """A candidate without a score comes behind all that have one; where nobody has one all are tied."""
        scored = [row for row in rows if self._number(row) is not None]
        return [row for row in scored if not self._apart(row, self.best)] or list(rows)

    def _best_quality(self, rows: Sequence[Row]) -> list[Row]:
        scored = [row for row in rows if apart.value(row, QUALITY) is not None]
        if not scored:
            return list(rows)
        best = self.best_quality(scored)
        return [row for row in scored if not apart.clearly_better(best, row, QUALITY, self.tie)]

    def _apart(self, one: Row, other: Row) -> bool:
        return self.scores[one.variant].told_apart(self.scores[other.variant], self.tie)

    def _number(self, row: Row) -> float | None:
        return self.scores[row.variant].value.value


def _fewest_bytes(rows: Sequence[Row]) -> list[Row]:
    sizes = [(size, row) for row in rows if (size := apart.value(row, BYTES)) is not None]
    if not sizes:
        return list(rows)
    fewest = min(size for size, _ in sizes)
    return [row for size, row in sizes if size == fewest]


def _baseline(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.is_baseline] or list(rows)


def _first_name(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.variant)[:1]
