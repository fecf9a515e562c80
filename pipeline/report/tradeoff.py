"""What the trade-off plots show: each variant on each axis, and who is on the frontier of each pair of axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from pipeline.metrics import display
from pipeline.metrics.axes import Axis
from pipeline.params import Params
from pipeline.records import Reading
from pipeline.report import cells, charts, frontier
from pipeline.report.rows import Row

SCALES = {"share": (0.01, "%"), "s": (0.001, "ms"), "ratio": (1.0, "×")}
"""By the unit of a metric what to divide its values by, and what they then are."""


@dataclass(frozen=True)
class Plot:
    """Numbers of the axes that a plot begins with."""

    x: int
    y: int


def payload(params: Params, rows: Sequence[Row], pick: str | None) -> dict[str, Any] | None:
    """What plots.js reads; None where no two axes have a value."""
    axes = frontier.selectable(params, rows)
    if len(axes) < 2:
        return None
    scales = [_scale(rows, axis) for axis in axes]
    return {
        "axes": [_axis(axis, unit) for axis, (_, unit) in zip(axes, scales, strict=True)],
        "points": {
            row.variant: [_point(row, axis, scale) for axis, (scale, _) in zip(axes, scales, strict=True)]
            for row in rows
        },
        "places": {
            f"{x},{y}": frontier.place(rows, (axes[x], axes[y]), params.decision.tie)
            for x, y in combinations(range(len(axes)), 2)
        },
        "pick": pick,
        "spec": charts.tradeoff(),
    }


def plots(params: Params, axes: Sequence[dict[str, Any]]) -> list[Plot]:
    """The first axis of `decision.frontier` upwards, each of the next two across."""
    names = [axis["name"] for axis in axes]
    wanted = [names.index(axis.name) for axis in frontier.default_axes(params) if axis.name in names]
    up, *across = list(dict.fromkeys([*wanted, *range(len(names))]))
    return [Plot(x, up) for x in across[:2]]


def _axis(axis: Axis, unit: str) -> dict[str, str]:
    direction = "higher" if axis.higher_is_better else "lower"
    words = ", ".join([f"{axis.title} ({unit})" if unit else axis.title, f"{direction} is better"])
    return {"name": axis.name, "title": axis.title, "axis": words}


def _point(row: Row, axis: Axis, scale: float) -> dict[str, Any]:
    """Without a value only `shown`, the reason."""
    found = row.measure(axis.metric, axis.scope)
    if not row.ok:
        return {"shown": f"{row.status.value}: {row.reason}"}
    if found.value.value is None:
        return {"shown": f"no {axis.title}: {found.value.reason}"}
    ends = dict(_ends(found.low, found.high, scale))
    return {
        "value": found.value.value / scale,
        **ends,
        "shown": str(cells.reading(axis.metric, found.value, found.low, found.high)),
    }


def _ends(low: Reading | None, high: Reading | None, scale: float) -> Iterator[tuple[str, float]]:
    for name, end in (("low", low), ("high", high)):
        if end is not None and end.value is not None:
            yield name, end.value / scale


def _scale(rows: Sequence[Row], axis: Axis) -> tuple[float, str]:
    """What to divide by, and the unit of the axis."""
    if axis.metric.unit != "bytes":
        return SCALES.get(axis.metric.unit, (1.0, ""))
    values = (row.measure(axis.metric, axis.scope).value.value for row in rows)
    largest = max((value for value in values if value is not None), default=0.0)
    return (display.GIB, "GiB") if largest >= 2 * display.GIB else (display.MIB, "MiB")
