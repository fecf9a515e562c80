"""From params.yaml and the records to everything a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.params import Gate, Params
from pipeline.records import Decision, VariantDecision
from pipeline.report import conditions, decision, frontier, gather
from pipeline.report.gather import Gathered
from pipeline.report.rows import Row, build


@dataclass(frozen=True)
class Analysis:
    params: Params
    gathered: Gathered
    rows: tuple[Row, ...]
    decision: Decision

    @property
    def baseline(self) -> Row:
        return next(row for row in self.rows if row.is_baseline)

    @property
    def ranked_by(self) -> str:
        """The preferred metrics by the titles that the tables show, each with the ratio that ranks it."""
        return ", then ".join(map(_ranked_by, self.decision.prefer))

    @property
    def tie(self) -> str:
        """What counts as equal in the ranking, in words."""
        return (
            f"values within {100 * self.decision.tie:g} % are a tie, and so are two ratios to the baseline where the "
            "interval of one holds the other"
        )

    def frontier_words(self, columns: Sequence[Metric]) -> str:
        """What the frontier is over, which of a table's columns it leaves out, and which variants it cannot place."""
        axes = frontier.axes(row.readings for row in self.rows if row.ok)
        *first, last = [axis.title for axis in axes]
        left_out = ", ".join(metric.title for metric in columns if metric not in axes)
        unplaced = ", ".join(row.variant for row in self.rows if row.ok and row.place is None)
        return (
            f"The frontier is over {', '.join(first)} and {last} together: a variant is dominated when another one is "
            f"no worse on all of them and better on one. Left out: {left_out}."
            + (f" Not placed, since a value on these axes is missing: {unplaced}." if unplaced else "")
        )

    def decided(self) -> list[tuple[Row, VariantDecision]]:
        """Each row with what was decided about it."""
        return list(zip(self.rows, self.decision.variants, strict=True))


def _ranked_by(name: str) -> str:
    metric = BY_NAME[name]
    return f"{metric.title} (by its ratio to the baseline's)" if metric.paired else metric.title


def analyse(params: Params, extra_gates: Mapping[str, Gate] | None = None) -> Analysis:
    """Read, compare and decide. Extra gates are judged like those of params.yaml.

    Raises:
        UserError: records are missing or do not belong in one table.
    """
    gathered = gather.gather(params)
    rows = build(params, gathered)
    decided = decision.decide(params, rows, conditions.sha256(params, gathered), extra_gates)
    return Analysis(params=params, gathered=gathered, rows=rows, decision=decided)
