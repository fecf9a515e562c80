"""The Pareto frontier over any axes: variants that none on it beats beyond doubt.

One variant *beats* another when it is better beyond the uncertainty on one axis (`pipeline.report.apart`), and the
other's value is better on none. Values that are level (`apart.level`) count as one; whatever else is not told apart on
an axis still counts by its value there. Being level does not pass on, so over two axes of such values some may beat
each other in a circle: these beats do not count. Beating need not pass on either: A may beat B and B beat C while A,
known less well, does not beat C. So the frontier is the one set in which nobody beats another, and one of which beats
everyone outside: a stable set (von Neumann & Morgenstern 1944, *Theory of Games and Economic Behavior*), of which there
is exactly one where nobody beats in a circle. A variant off the frontier then changes nothing for the others. Without
uncertainty this is the usual Pareto frontier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter

import numpy
from scipy.sparse.csgraph import connected_components

from pipeline.metrics.axes import Axis, Plain, parse_axis
from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.scope import Scope
from pipeline.params import Params
from pipeline.report import apart
from pipeline.report.rows import Row

__all__ = ["Axis", "default_axes", "dominators", "parse_axis", "place", "placed", "plain", "selectable"]

BY_WORKLOAD = ("speedup", "ttft_speedup", "ttft_s_p50", "aggregate_tokens_per_s")
"""Offered for every workload and for every level of the sweep."""
WHOLE_FIGURES = ("cost_per_million_tokens", "peak_memory_bytes", "weight_bytes", "kld_mean")

Clear = Callable[[str, str, int], bool]
"""The first variant's value on the axis of this number, which is better, differs beyond the uncertainty."""
Level = Callable[[str, str, int], bool]
"""The two variants' values on the axis of this number count as one."""


def default_axes(params: Params) -> tuple[Axis, ...]:
    """Those of `decision.frontier`."""
    return tuple(map(parse_axis, params.decision.frontier))


def plain(params: Params) -> Plain:
    own = {name: workload.concurrency for name, workload in params.benchmark.workloads.items()}
    return Plain(params.decision.workload, own, tuple(params.eval_sets))


def selectable(params: Params, rows: Sequence[Row]) -> tuple[Axis, ...]:
    """Axes to choose from; each has a value for at least one variant.

    The deciding workload at its own number of streams has the plain name: `speedup`, not `speedup@instruction`.
    """
    sets = list(params.eval_sets) if len(params.eval_sets) > 1 else []
    quality = [Axis(BY_NAME["quality"]), *(Axis(BY_NAME["quality"], Scope(eval_set=name)) for name in sets)]
    speed = [Axis(BY_NAME[name], scope) for name in BY_WORKLOAD for scope in _workload_scopes(params)]
    whole = [Axis(BY_NAME[name]) for name in WHOLE_FIGURES]
    return tuple(axis for axis in [*quality, *speed, *whole] if any(_there(row, axis) for row in rows))


def _workload_scopes(params: Params) -> list[Scope]:
    sweep, decides = params.benchmark.sweep, params.decision.workload
    found = [Scope(workload=None if name == decides else name) for name in params.benchmark.workloads]
    own = params.benchmark.workloads[sweep.workload].concurrency
    levels = sorted({level for level in sweep.concurrency if level != own})
    return [*found, *(Scope(workload=sweep.workload, concurrency=level) for level in levels)]


def _there(row: Row, axis: Axis) -> bool:
    return row.measure(axis.metric, axis.scope).value.value is not None


def place(rows: Sequence[Row], axes: Sequence[Axis], tie: float) -> dict[str, list[str]]:
    """For each variant those on the frontier that beat it; none means that it is on the frontier.

    Only variants that are ok and have what decides on every axis are there. Values without an interval that differ by
    at most the share `tie` are level.
    """
    there = {row.variant: row for row in rows if row.ok and all(apart.value(row, axis) is not None for axis in axes)}
    points = {name: [apart.value(row, axis) or 0.0 for axis in axes] for name, row in there.items()}

    def clear(one: str, other: str, axis: int) -> bool:
        return apart.clearly_better(there[one], there[other], axes[axis], tie)

    def level(one: str, other: str, axis: int) -> bool:
        return apart.level(there[one], there[other], axes[axis], tie)

    return dominators(points, [axis.judged_by.higher_is_better for axis in axes], clear, level)


def placed(rows: Sequence[Row], axes: Sequence[Axis], tie: float) -> tuple[Row, ...]:
    """The rows with their place; see `place`."""
    found = place(rows, axes, tie)
    return tuple(
        replace(row, on_frontier=found.get(row.variant) == [], dominated_by=tuple(found.get(row.variant, ())))
        for row in rows
    )


def beats(
    one: str,
    other: str,
    points: Mapping[str, Sequence[float]],
    higher: Sequence[bool],
    clear: Clear,
    level: Level = lambda *_: False,
) -> bool:
    """On no axis is the other's value better, and on one this one's is clearly better."""
    gains = [
        0.0 if level(one, other, axis) else (mine - theirs) * (1 if up else -1)
        for axis, (mine, theirs, up) in enumerate(zip(points[one], points[other], higher, strict=True))
    ]
    return min(gains) >= 0 and any(gain > 0 and clear(one, other, axis) for axis, gain in enumerate(gains))


def dominators(
    points: Mapping[str, Sequence[float]],
    higher_is_better: Sequence[bool],
    clear: Clear = lambda *_: True,
    level: Level = lambda *_: False,
) -> dict[str, list[str]]:
    """For each point those on the frontier that beat it, in their order; none means it is on the frontier.

    Points that are equal on every axis do not beat each other: they share the frontier.
    """
    beaten_by = {
        name: [o for o in points if o != name and beats(o, name, points, higher_is_better, clear, level)]
        for name in points
    }
    rivals = _without_circles(beaten_by)
    found: dict[str, list[str]] = {}
    for name in TopologicalSorter(rivals).static_order():
        found[name] = [rival for rival in rivals[name] if not found[rival]]
    return {name: found[name] for name in points}


def _without_circles(rivals: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Without those that a point beats as well, itself or through others."""
    names = list(rivals)
    beaten = numpy.array([[other in rivals[name] for other in names] for name in names])
    _, labels = connected_components(beaten, connection="strong") if names else (0, [])
    circle = dict(zip(names, labels, strict=True))
    return {name: [rival for rival in rivals[name] if circle[rival] != circle[name]] for name in names}
