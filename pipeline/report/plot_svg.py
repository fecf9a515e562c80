"""The picture of the Markdown report: quality against decode speed, both against the baseline, with intervals.

An SVG with a background of its own, so that it reads on any page; it turns dark with the reader's system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.metrics import display
from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.report.rows import Row

PICKED, OTHER = "recommended", "not recommended"
_X, _Y = BY_NAME["speedup"], BY_NAME["quality_delta"]
_CARD, _INK, _SOFT, _LINE, _PICK, _DOT = "#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#1a7f37", "#0969da"
_DARK = {
    _CARD: "#0d1117",
    _INK: "#f0f6fc",
    _SOFT: "#9198a1",
    _LINE: "#3d444d",
    _PICK: "#3fb950",
    _DOT: "#58a6ff",
}
"""Colour by day → by night."""
_WIDTH, _HEIGHT = 620, 320
_NAMED = 12
"""Of more variants only the baseline and the recommended one have their names drawn: the rest would overlap."""


def render(rows: Sequence[Row], pick: str | None) -> str:
    """The SVG's text; the same rows give the same bytes. Variants without both values are named below the axes."""
    import vl_convert

    return _themed(vl_convert.vegalite_to_svg(_spec(rows, pick)))


def _themed(svg: str) -> str:
    """With colours by night. A style sheet goes before the attributes that hold the colours by day."""
    rules = "".join(
        f'[{attribute}="{day}"]{{{attribute}:{night}}}'
        for day, night in _DARK.items()
        for attribute in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    head, end, rest = svg.partition(">")
    return f"{head}{end}{style}{rest}\n"


def _spec(rows: Sequence[Row], pick: str | None) -> dict[str, Any]:
    import altair as alt

    shown = [row for row in rows if row.ok and row.value(_X.name) is not None and row.value(_Y.name) is not None]
    points = [_point(row, pick, len(shown) <= _NAMED) for row in shown]
    _place_names(points)
    across = alt.X("x:Q", title=f"{_X.title} (×)", scale=alt.Scale(zero=False, padding=48, nice=True))
    up = alt.Y("y:Q", title=f"{_Y.title} (percentage points)", scale=alt.Scale(zero=False, padding=24, nice=True))
    role = alt.Color("role:N", legend=None, scale=alt.Scale(domain=[PICKED, OTHER], range=[_PICK, _DOT]))
    base = alt.Chart(alt.InlineData(values=points)).encode(color=role)
    baseline = [row for row in shown if row.is_baseline]
    same = alt.Chart(alt.InlineData(values=[{"x": 1, "y": 0}] * len(baseline)))
    layers = [
        same.mark_rule(strokeDash=[4, 4], color=_SOFT).encode(x=across),
        same.mark_rule(strokeDash=[4, 4], color=_SOFT).encode(y=up),
        base.mark_rule(strokeWidth=1.5).encode(x=alt.X("x_low:Q", title=""), x2="x_high:Q", y=up),
        base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("y_low:Q", title=""), y2="y_high:Q", x=across),
        base.mark_circle(size=110, opacity=1).encode(x=across, y=up),
        *(_names(alt, points, above, across, up) for above in (True, False)),
    ]
    title = alt.TitleParams(
        text="Quality against decode speed, each against the baseline, with 95 % intervals",
        subtitle=_subtitle(rows, shown),
        anchor="start",
        color=_INK,
        subtitleColor=_SOFT,
        fontSize=14,
    )
    chart = alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title=title, padding=14)
    axis = {"labelColor": _SOFT, "titleColor": _SOFT, "gridColor": _LINE, "domainColor": _LINE, "tickColor": _LINE}
    styled = chart.configure(background=_CARD, font="sans-serif").configure_view(stroke=_LINE)
    spec: dict[str, Any] = styled.configure_axis(**axis, labelFontSize=12, titleFontSize=12, gridOpacity=0.6).to_dict()
    return spec


def _names(alt: Any, points: Sequence[dict[str, Any]], above: bool, across: Any, up: Any) -> Any:
    """To the right of each point, over or under the bars that cross in it."""
    named = [point for point in points if point["above"] is above]
    text = alt.Chart(alt.InlineData(values=named)).mark_text(
        align="left", dx=8, dy=-10 if above else 14, fontSize=12, fontWeight="bold", color=_INK
    )
    return text.encode(x=across, y=up, text="name:N")


def _point(row: Row, pick: str | None, has_name: bool) -> dict[str, Any]:
    return {
        "name": row.variant if has_name or row.is_baseline or row.variant == pick else "",
        "role": PICKED if row.variant == pick else OTHER,
        **_bar(row, _X, "x", 1),
        **_bar(row, _Y, "y", 100),
    }


def _bar(row: Row, metric: Metric, axis: str, scale: float) -> dict[str, float]:
    """Value and interval of a metric that the row has; an interval that is missing is as wide as the point."""
    value = row.value(metric.name)
    assert value is not None, "asked only of rows that have a value"
    low, high = row.value(metric.low), row.value(metric.high)
    ends = {"_low": value if low is None else low, "": value, "_high": value if high is None else high}
    return {f"{axis}{end}": scale * found for end, found in ends.items()}


def _place_names(points: Sequence[dict[str, Any]]) -> None:
    """Of two points that are each other's nearest along x the higher one has its name above, the other below."""
    for point in points:
        others = [other for other in points if other is not point]
        nearest = min(others, key=lambda other: abs(other["x"] - point["x"]), default=None)
        point["above"] = nearest is None or (point["y"], point["x"]) >= (nearest["y"], nearest["x"])


def _subtitle(rows: Sequence[Row], shown: Sequence[Row]) -> str:
    absent = [row.variant for row in rows if row not in shown]
    if not absent:
        return "up and to the right is better"
    named = ", ".join(absent[:3]) + (f" and {display.count(len(absent) - 3)} more" if len(absent) > 3 else "")
    return f"up and to the right is better; not drawn, since a value is missing: {named}"
