"""From params.yaml and the records to everything a report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.metrics.axes import Axis, parse_axis
from pipeline.metrics.catalogue import Metric
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
        """The profile and its weights by the titles that the tables show, and what counts as equal."""
        weights = self.decision.weights
        parts = ", ".join(f"{parse_axis(name).title} {100 * share:.0f} %" for name, share in weights.items())
        return f"profile {self.decision.profile}: {parts}"

    @property
    def tie(self) -> str:
        """What counts as equal in the ranking, in words."""
        return (
            f"scores within {100 * self.decision.tie:g} %, or whose ratio has an interval that holds 1, are not told "
            "apart; then come quality, fewer bytes, the baseline and the name"
        )

    @property
    def other_profiles(self) -> str:
        """What would be shipped under each other profile of params.yaml; empty where there is none, or no pick."""
        others = {name: pick for name, pick in self.decision.profiles.items() if name != self.decision.profile and pick}
        return ", ".join(f"{pick} under {name}" for name, pick in others.items())

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What the frontier is over."""
        return frontier.default_axes(self.params)

    def frontier_words(self, columns: Sequence[Metric]) -> str:
        """What the frontier is over, which of a table's columns it leaves out, and which variants it cannot place."""
        titles = [axis.title for axis in self.axes]
        named = " and ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))
        metrics = {axis.metric.name for axis in self.axes}
        left_out = ", ".join(metric.title for metric in columns if metric.name not in metrics)
        unplaced = ", ".join(row.variant for row in self.rows if row.ok and row.place is None)
        return (
            f"The frontier is over {named} together: a variant is dominated when another one on it is better beyond "
            f"the uncertainty on one of them, and its own value is better on none. Left out: {left_out}."
            + (f" Not placed, since a value on these axes is missing: {unplaced}." if unplaced else "")
        )

    def decided(self) -> list[tuple[Row, VariantDecision]]:
        """Each row with what was decided about it."""
        return list(zip(self.rows, self.decision.variants, strict=True))


def analyse(params: Params, extra_gates: Mapping[str, Gate] | None = None, profile: str | None = None) -> Analysis:
    """Read, compare and decide. Extra gates are judged like those of params.yaml; a profile stands for its own.

    Raises:
        UserError: records are missing or do not belong in one table, or there is no such profile.
    """
    gathered = gather.gather(params)
    rows = frontier.placed(build(params, gathered), frontier.default_axes(params), params.decision.tie)
    decided = decision.decide(params, rows, conditions.sha256(params, gathered), extra_gates, profile)
    return Analysis(params=params, gathered=gathered, rows=rows, decision=decided)
