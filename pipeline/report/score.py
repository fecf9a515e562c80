"""One number for what a profile values: the weighted geometric mean of a variant's improvements over the baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.metrics.axes import Axis, parse_axis
from pipeline.metrics.scope import Measured
from pipeline.records import Reading, known, missing
from pipeline.report import apart
from pipeline.report.apart import Estimate
from pipeline.report.rows import Row


@dataclass(frozen=True)
class Weight:
    """An axis that counts, and its share of the whole."""

    axis: Axis
    share: float


@dataclass(frozen=True)
class Score:
    """The baseline has 1, with the interval 1..1; above 1 a variant is better. Missing with the reason."""

    value: Reading
    low: Reading
    high: Reading

    def told_apart(self, other: Score, tie: float) -> bool:
        """They differ by more than the share `tie` of the larger one, and the interval of their ratio leaves out 1.

        Each is a ratio to the baseline, measured apart from the other, so the interval is `Estimate.above`'s.
        """
        mine, theirs = self.value.value, other.value.value
        if mine is None or theirs is None or abs(mine - theirs) <= tie * max(mine, theirs):
            return False
        ours, others = self._log(mine), other._log(theirs)
        return ours.above(others) or others.above(ours)

    def _log(self, number: float) -> Estimate:
        low, high = (None if end.value is None else math.log(end.value) for end in (self.low, self.high))
        return Estimate(math.log(number), low, high)


def shares(weights: Mapping[str, float], plain: Callable[[Axis], Axis] = lambda axis: axis) -> tuple[Weight, ...]:
    """A profile's weights, brought to a sum of 1; those of one axis under several names are added up.

    Args:
        plain: the one name of an axis; see `pipeline.metrics.axes.Plain`.
    """
    total = math.fsum(weights.values())
    found: dict[Axis, float] = {}
    for name, weight in weights.items():
        axis = plain(parse_axis(name))
        found[axis] = found.get(axis, 0.0) + weight / total
    return tuple(Weight(axis, share) for axis, share in found.items())


def of(row: Row, baseline: Row, weights: Sequence[Weight]) -> Score:
    """exp(Σ w · ln r) over the axes, with r the improvement over the baseline and weights w that sum to 1.

    A mean of ratios must be geometric: any other one changes its order with what it is relative to (Fleming & Wallace
    1986, "How not to lie with statistics: the correct way to summarize benchmark results", CACM 29:218). Its interval
    is Σ w · ln r ∓ sqrt(Σ (w · h)²), with h the distance from ln r to that end of its own interval (MOVER: Zou & Donner
    2008). This takes the axes for independent; where they move together it is too narrow, by √k for k of equal weight
    at the worst. Axes that are judged by one and the same reading, such as rate and cost on one workload, are added up
    first. An axis without an interval counts as known: `decision.tie` stands for its noise.

    A variant that lacks one of them has no score.
    """
    together: dict[Axis, float] = {}
    for weight in weights:
        judged = weight.axis.judged_by
        together[judged] = together.get(judged, 0.0) + weight.share
    logs: list[tuple[float, Estimate]] = []
    unknown = ""
    for axis, share in together.items():
        found = improvement(row, baseline, axis)
        if found.value.value is None:
            return _absent(f"no score without {axis.title}: {found.value.reason}")
        ends = [end for end in (found.low, found.high) if end is not None]
        unknown = unknown or next((f"{axis.title}: {end.reason}" for end in ends if end.value is None), "")
        logs.append((share, _log(found)))
    return _combined(logs, unknown)


def _combined(logs: Sequence[tuple[float, Estimate]], unknown: str) -> Score:
    middle = math.fsum(share * found.value for share, found in logs)
    value = known(math.exp(middle))
    if unknown:
        return Score(value, missing(unknown), missing(unknown))
    below = math.hypot(*(share * (found.value - found.low) for share, found in logs if found.low is not None))
    above = math.hypot(*(share * (found.high - found.value) for share, found in logs if found.high is not None))
    return Score(value, known(math.exp(middle - below)), known(math.exp(middle + above)))


def _absent(reason: str) -> Score:
    return Score(*[missing(reason)] * 3)


def improvement(row: Row, baseline: Row, axis: Axis) -> Measured:
    """How many times better than the baseline, above 1 where it is better; with its interval where it has one.

    A ratio measured in turns is taken as it is. Of scores of items it is 1 + d / b, with the baseline's score b and
    the paired difference d from it. Anything else is divided; of the baseline itself it is 1, known exactly.
    """
    judged = axis.judged_by
    own = row.measure(judged.metric, judged.scope)
    if judged.metric.versus_baseline:
        return _upwards(own, judged)
    if row is baseline and own.value.value is not None and own.value.value > 0:
        return Measured(known(1.0))
    base = baseline.measure(judged.metric, judged.scope).value
    if own.value.value is None or base.value is None:
        return Measured(own.value if own.value.value is None else missing(f"of {baseline.variant}, {base.reason}"))
    if base.value <= 0 or own.value.value <= 0:
        return Measured(missing(f"{axis.show(own.value.value)} against {axis.show(base.value)} has no ratio"))
    if apart.is_score(judged):
        return _of_scores(row, baseline, judged, own.value.value, base.value)
    return _upwards(_quotient(own, baseline.measure(judged.metric, judged.scope)), judged)


def _quotient(own: Measured, base: Measured) -> Measured:
    """With the interval of both where they have one, in quadrature on the log scale."""
    assert own.value.value, "asked of what is above 0"
    assert base.value.value, "asked of what is above 0"
    ratio = own.value.value / base.value.value
    if own.low is None or own.high is None:
        return Measured(known(ratio))
    mine, theirs = _log(own), _log(base)
    if mine.low is None or mine.high is None or theirs.low is None or theirs.high is None:
        ends = (own.low, own.high, base.low, base.high)
        reason = next((end.reason for end in ends if end and end.reason), "an end of an interval is 0")
        return Measured(known(ratio), missing(reason), missing(reason))
    below = math.hypot(mine.value - mine.low, theirs.high - theirs.value)
    above = math.hypot(mine.high - mine.value, theirs.value - theirs.low)
    return Measured(known(ratio), known(ratio / math.exp(below)), known(ratio * math.exp(above)))


def _log(found: Measured) -> Estimate:
    assert found.value.value, "asked of what is above 0"
    low, high = (None if end is None or not end.value else math.log(end.value) for end in (found.low, found.high))
    return Estimate(math.log(found.value.value), low, high)


def _of_scores(row: Row, baseline: Row, axis: Axis, own: float, base: float) -> Measured:
    delta = apart.difference(row, baseline, axis)
    if isinstance(delta, str):
        return Measured(missing(delta))
    low, high = (end if end.value is None else known(1 + end.value / base) for end in (delta.ci_low, delta.ci_high))
    if low.value is not None and low.value <= 0:
        low = missing("the interval reaches a score of 0")
    return Measured(known(own / base), low, high)


def _upwards(found: Measured, axis: Axis) -> Measured:
    """A ratio of which lower is better, turned over."""
    if axis.higher_is_better or found.value.value is None:
        return found
    low, high = (end if end is None or not end.value else known(1 / end.value) for end in (found.high, found.low))
    return Measured(known(1 / found.value.value), low, high)
