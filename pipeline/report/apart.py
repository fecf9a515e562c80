"""Whether two variants can be told apart on one axis: a difference beyond what chance, drift or the batch explains."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.metrics.axes import Axis
from pipeline.metrics.catalogue import BY_NAME
from pipeline.records import Interval, Reading, known
from pipeline.report import cells
from pipeline.report.rows import Row

SCORES = (BY_NAME["quality"], BY_NAME["quality_delta"])


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its 95 % interval; None where it has none."""

    value: float
    low: float | None
    high: float | None

    def above(self, other: Estimate) -> bool:
        """The interval of this number less the other leaves out 0.

        The interval of a difference of two independent estimates, from their own intervals (MOVER: Zou & Donner 2008,
        Statistics in Medicine 27:1693): low = a - b - sqrt((a - l_a)² + (u_b - b)²). Two intervals that do not
        overlap always leave out 0; two that overlap a little may. Without an interval nothing is above.
        """
        if self.low is None or other.high is None:
            return False
        return self.value - other.value > math.hypot(self.value - self.low, other.high - other.value)


def reading(row: Row, axis: Axis) -> Reading:
    """What decides on this axis; see `Axis.judged_by`."""
    judged = axis.judged_by
    return row.measure(judged.metric, judged.scope).value


def value(row: Row, axis: Axis) -> float | None:
    return reading(row, axis).value


def _known(row: Row, axis: Axis) -> float:
    found = value(row, axis)
    assert found is not None, "asked only of those that have a value"
    return found


def better(one: Row, other: Row, axis: Axis) -> bool:
    """By the values alone; both are there."""
    mine, theirs = _known(one, axis), _known(other, axis)
    return mine > theirs if axis.judged_by.higher_is_better else mine < theirs


def clearly_better(one: Row, other: Row, axis: Axis, tie: float) -> bool:
    """Better by more than the uncertainty of the two.

    - Counted, such as bytes of a file: any difference.
    - Scores of the same items: the interval of the paired difference leaves out 0, and the difference is more than
      the batch alone may change (`pipeline.metrics.noise_floor`).
    - Measured with an interval, such as a ratio to the baseline: `Estimate.above`, ratios by their logarithms. The two
      were measured apart from each other, each in turns with the baseline.
    - Measured without an interval: more than the share `tie` of the larger one.
    """
    if not better(one, other, axis):
        return False
    if axis.judged_by.metric.exact:
        return True
    if _without_interval(axis):
        return not level(one, other, axis, tie)
    if is_score(axis):
        return _gained(one, other, axis)
    ours, others = (_estimate(row, axis) for row in (one, other))
    return ours.above(others) if axis.judged_by.higher_is_better else others.above(ours)


def level(one: Row, other: Row, axis: Axis, tie: float) -> bool:
    """Measured without an interval, and within the share `tie` of the larger value: counts as the same value.

    Nothing with an interval is level, however wide: a score known to ± 5 points is no evidence that nothing was lost.
    """
    mine, theirs = _known(one, axis), _known(other, axis)
    return _without_interval(axis) and abs(mine - theirs) <= tie * max(abs(mine), abs(theirs))


def _without_interval(axis: Axis) -> bool:
    metric = axis.judged_by.metric
    return not metric.exact and metric.low is None


def is_score(axis: Axis) -> bool:
    """A mean score of items, so that two variants are compared item by item."""
    return axis.judged_by.metric in SCORES


def difference(one: Row, other: Row, axis: Axis) -> Interval | str:
    """Mean of one variant's score - the other's on the same items, or the reason why there is none."""
    return one.against(other, axis.scope).delta_interval


def _gained(one: Row, other: Row, axis: Axis) -> bool:
    evidence = one.against(other, axis.scope)
    delta, floor = evidence.delta_interval, evidence.noise_floor
    if isinstance(delta, str) or delta.ci_low.value is None:
        return False
    return delta.ci_low.value > 0 and (isinstance(floor, str) or not floor.holds(delta.mean))


def _estimate(row: Row, axis: Axis) -> Estimate:
    """On the scale on which its interval is about symmetric: logarithms of ratios, anything else as it is."""
    judged = axis.judged_by
    found = row.measure(judged.metric, judged.scope)
    number, low, high = (None if end is None else end.value for end in (found.value, found.low, found.high))
    assert number is not None, "asked only of those that have a value"
    if judged.metric.unit != "ratio":
        return Estimate(number, low, high)
    return Estimate(math.log(number), *(None if not end else math.log(end) for end in (low, high)))


# --- words -----------------------------------------------------------------------------------------------------


def measured(row: Row, axis: Axis) -> str:
    """The value of the axis itself, with its interval; a ratio of the baseline to itself is 1 by definition."""
    if row.is_baseline and axis.metric.versus_baseline and axis.metric.unit == "ratio":
        return "1"
    found = row.measure(axis.metric, axis.scope)
    return str(cells.reading(axis.metric, found.value, found.low, found.high))


def shown(row: Row, axis: Axis) -> str:
    """The value that decides, with its interval."""
    return measured(row, axis.judged_by)


def compared(one: Row, other: Row, axis: Axis) -> str:
    """Both values, e.g. `Weights on disk 257 MiB against 90 MiB of int4`; a ratio to the other needs no second one."""
    judged = axis.judged_by
    if is_score(axis):
        return f"{judged.title} {gained(one, other, axis)} on the same items"
    mine, theirs = shown(one, axis), shown(other, axis)
    if judged.metric.versus_baseline and other.is_baseline:
        return f"{judged.title} {mine}"
    if mine == theirs:
        mine, theirs = (f"{_known(row, axis):,.10g} {judged.metric.unit}" for row in (one, other))
    return f"{judged.title} {mine} against {theirs} of {other.variant}"


def gained(one: Row, other: Row, axis: Axis) -> str:
    """The paired difference of two scores, e.g. `−2.5 pp (−7.1 to +0.7 pp)`."""
    delta = difference(one, other, axis)
    if isinstance(delta, str):
        return delta
    return str(cells.reading(BY_NAME["quality_delta"], known(delta.mean), delta.ci_low, delta.ci_high))
