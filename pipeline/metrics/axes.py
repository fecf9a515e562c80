"""One thing that variants are compared on: a metric of the whole, or of one workload, level, eval set or category.

Written `speedup`, `speedup@code`, `speedup@instruction:8`, `quality@zh-support`, `quality@support-desk/policy`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pipeline.errors import UserError, nearest
from pipeline.metrics.catalogue import BY_NAME, METRICS, Metric
from pipeline.metrics.metric import Narrows
from pipeline.metrics.scope import WHOLE, Scope, unfit

_BOUNDS = {bound for metric in METRICS for bound in (metric.low, metric.high)}
METRIC_NAMES = tuple(
    metric.name
    for metric in METRICS
    if metric.higher_is_better is not None and metric.name not in _BOUNDS and metric.unit != "items"
)
"""Metrics that an axis can be of: one direction is better, and how far two variants must differ can be told."""


@dataclass(frozen=True)
class Axis:
    metric: Metric
    scope: Scope = WHOLE

    @property
    def name(self) -> str:
        """What `parse_axis` reads."""
        scope = self.scope
        speed = scope.workload and (scope.workload + (f":{scope.concurrency}" if scope.concurrency else ""))
        place = speed or "/".join(part for part in (scope.eval_set, scope.category) if part)
        return f"{self.metric.name}@{place}" if place else self.metric.name

    @property
    def title(self) -> str:
        return f"{self.metric.title}, {self.scope}" if str(self.scope) else self.metric.title

    @property
    def higher_is_better(self) -> bool:
        return bool(self.metric.higher_is_better)

    @property
    def judged_by(self) -> Axis:
        """What decides between two variants: the ratio to the baseline measured in turns, where there is one.

        Two rates or times that were not measured at the same moment differ by the machine's drift as well.
        """
        return Axis(BY_NAME[self.metric.paired], self.scope) if self.metric.paired else self

    def show(self, value: float) -> str:
        """The value as people read it."""
        return self.metric.display(value)


@dataclass(frozen=True)
class Plain:
    """What an axis means that names no part, so that one reading has one name."""

    workload: str
    """The deciding one."""
    concurrency: Mapping[str, int]
    """Of each workload, its own."""
    eval_sets: Collection[str]

    def __call__(self, axis: Axis) -> Axis:
        """E.g. `speedup@instruction:1` → `speedup`, where that is the deciding workload at its own concurrency."""
        scope = axis.scope
        if scope.workload and scope.concurrency in (None, self.concurrency.get(scope.workload)):
            return Axis(axis.metric, WHOLE if scope.workload == self.workload else Scope(workload=scope.workload))
        if scope.eval_set and not scope.category and set(self.eval_sets) == {scope.eval_set}:
            return Axis(axis.metric)
        return axis


def parse_axis(text: str) -> Axis:
    """`METRIC`, `METRIC@WORKLOAD`, `METRIC@WORKLOAD:STREAMS`, `METRIC@EVAL_SET` or `METRIC@EVAL_SET/CATEGORY`.

    Whether there is such a workload or eval set is for `unknown_part` to say.

    Raises:
        UserError: there is no such metric, neither direction of it is better, or it has no such part.
    """
    name, at, place = text.strip().partition("@")
    if name not in METRIC_NAMES:
        raise UserError(f"{text!r}: no metric {name!r} that variants can be compared on; {nearest(name, METRIC_NAMES)}")
    metric = BY_NAME[name]
    if at and not place:
        raise UserError(f"{text!r}: give a workload or an eval set after the @, or leave it out")
    scope = _scope(text, metric, place)
    refused = unfit(metric, scope)
    if refused:
        raise UserError(f"{text!r}: {refused}")
    return Axis(metric, scope)


def _scope(text: str, metric: Metric, place: str) -> Scope:
    if not place:
        return WHOLE
    if metric.narrows is Narrows.WHOLE:
        raise UserError(f"{text!r}: {metric.name} has no parts; leave out @{place}")
    if metric.narrows is not Narrows.WORKLOAD:
        eval_set, _, category = place.partition("/")
        return Scope(eval_set=eval_set, category=category or None)
    workload, colon, level = place.partition(":")
    if not colon:
        return Scope(workload=workload)
    if not (level.isascii() and level.isdigit() and int(level) > 0):
        raise UserError(f"{text!r}: {level!r} is no number of streams; give a whole number of 1 or more")
    return Scope(workload=workload, concurrency=int(level))


def unknown_part(axis: Axis, levels: Mapping[str, Collection[int]], categories: Mapping[str, Collection[str]]) -> str:
    """What an axis names that is not there, in words; empty where all is.

    Args:
        levels: numbers of streams that are measured, by workload.
        categories: by eval set.
        Of either, what is empty is not known and not asked.
    """
    scope = axis.scope
    if scope.workload and levels and scope.workload not in levels:
        return f"no workload {scope.workload!r}; {nearest(scope.workload, list(levels))}"
    measured = levels.get(scope.workload or "", ())
    if scope.concurrency and measured and scope.concurrency not in measured:
        listed = ", ".join(map(str, sorted(measured)))
        return f"{scope.workload} is measured with these numbers of streams only: {listed}"
    if scope.eval_set and categories and scope.eval_set not in categories:
        return f"no eval set {scope.eval_set!r}; {nearest(scope.eval_set, list(categories))}"
    known = categories.get(scope.eval_set or "", ())
    if scope.category and known and scope.category not in known:
        return f"{scope.eval_set} has no category {scope.category!r}; {nearest(scope.category, sorted(known))}"
    return ""
