"""Vega-Lite specifications of the charts. Colours are CSS variables of the page, so they follow light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pipeline.metrics import display
from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.report import cells, frontier
from pipeline.report.breakdown.concurrency import Swept
from pipeline.report.breakdown.pairing import Line
from pipeline.report.breakdown.quality import CategoryScore
from pipeline.report.rows import Row

PICKED, ON_FRONTIER, DOMINATED = "recommended", "on the frontier", "dominated"
_ROLE_COLOURS = {PICKED: "var(--pick)", ON_FRONTIER: "var(--accent)", DOMINATED: "var(--muted)"}
_QUALITY = BY_NAME["quality"]
_MEMORY = BY_NAME["peak_memory_bytes"]
VARIANT_COLOURS = 8

Spec = dict[str, Any]


def colour(position: int) -> str:
    """CSS colour of the variant at this place in params.yaml."""
    return f"var(--variant-{position % VARIANT_COLOURS + 1})"


def tradeoff(rows: Sequence[Row], pick: str | None, x: Metric) -> Spec | None:
    """Quality with its interval against one other metric; None when no variant has both."""
    import altair as alt

    shown = [row for row in rows if row.ok and row.value(_QUALITY.name) is not None and row.value(x.name) is not None]
    if not shown:
        return None
    scale, unit = _axis_unit(x, shown)
    points = [_point(row, pick, x, scale) for row in shown]
    _place_labels(points)
    title = f"{x.title} ({unit})" if unit else x.title
    tooltip = [
        alt.Tooltip("variant:N", title="Variant"),
        alt.Tooltip("role:N", title="Frontier"),
        *(alt.Tooltip(f"{metric.name}:N", title=metric.title) for metric in cells.COLUMNS),
    ]
    across = alt.X("x:Q", title=title, scale=alt.Scale(zero=False, padding=36, nice=True))
    up = alt.Y("y:Q", title="Quality", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False, padding=12))
    role = alt.Color(
        "role:N", legend=None, scale=alt.Scale(domain=list(_ROLE_COLOURS), range=list(_ROLE_COLOURS.values()))
    )
    base = alt.Chart(alt.InlineData(values=points)).encode(x=across, color=role)
    line = (
        alt.Chart(alt.InlineData(values=_best_line(points, bool(x.higher_is_better))))
        .mark_line(interpolate="step-before" if x.higher_is_better else "step-after", strokeDash=[5, 4], opacity=0.7)
        .encode(x=across, y=up, color=alt.value("var(--muted)"))
    )
    error = base.mark_rule(strokeWidth=1.5, opacity=0.75).encode(y=alt.Y("low:Q", title="Quality"), y2="high:Q")
    size = alt.Size("memory:Q", legend=None, scale=alt.Scale(zero=True, range=[60, 420]))
    dots = base.mark_circle(opacity=0.95).encode(y=up, size=size, tooltip=tooltip)
    written: Spec = {"dy": alt.expr("datum.above ? -18 : 20"), "fontWeight": "bold"}
    halo = base.mark_text(**written, stroke="var(--card)", strokeWidth=4).encode(y=up, text="variant:N")
    labels = base.mark_text(**written).encode(y=up, text="variant:N", color=alt.value("var(--ink)"), tooltip=tooltip)
    return _finished(alt.layer(line, error, dots, halo, labels), 320)


def categories(scores: Sequence[CategoryScore], variants: Sequence[str]) -> Spec | None:
    """One bar per category and variant, with its interval; None when nothing was scored."""
    import altair as alt

    several_sets = len({score.eval_set for score in scores}) > 1
    bars = [
        {
            "category": f"{score.eval_set} / {score.category}" if several_sets else score.category,
            "variant": score.variant,
            "mean": score.interval.mean,
            "low": score.interval.ci_low.value,
            "high": score.interval.ci_high.value,
            "shown": str(score.cell),
            "items": score.interval.n,
        }
        for score in scores
        if score.interval
    ]
    if not bars:
        return None
    names = list(dict.fromkeys(bar["category"] for bar in bars))
    across = alt.X("mean:Q", title="Mean score", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1]))
    tooltip = [
        alt.Tooltip("category:N", title="Category"),
        alt.Tooltip("variant:N", title="Variant"),
        alt.Tooltip("shown:N", title="Mean score"),
        alt.Tooltip("items:Q", title="Items"),
    ]
    base = alt.Chart(alt.InlineData(values=bars)).encode(
        y=alt.Y("category:N", title=None, sort=None), yOffset=alt.YOffset("variant:N", sort=list(variants))
    )
    fill = _variant_colour(variants)
    bar = base.mark_bar(opacity=0.9, cornerRadiusEnd=2).encode(x=across, color=fill, tooltip=tooltip)
    rule = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q"), x2="high:Q", color=alt.value("var(--ink)"))
    return _finished(alt.layer(bar, rule), max(160, len(names) * (14 * len(variants) + 14)))


def speedups(lines: Sequence[Line], variants: Sequence[str]) -> Spec | None:
    """A dot with its interval for each variant, and a line at 1; None when nothing was compared."""
    import altair as alt

    dots = [
        {
            "variant": line.variant,
            "ratio": line.speedup.ratio,
            "low": line.speedup.low.value,
            "high": line.speedup.high.value,
            "shown": str(line.cell),
            "pairs": line.speedup.pairs,
        }
        for line in lines
        if line.speedup
    ]
    if not dots:
        return None
    title = "× the baseline's decode speed"
    across = alt.X("ratio:Q", title=title, scale=alt.Scale(zero=False, padding=16))
    up = alt.Y("variant:N", title=None, sort=list(variants))
    tooltip = [
        alt.Tooltip("variant:N", title="Variant"),
        alt.Tooltip("shown:N", title="Speed-up"),
        alt.Tooltip("pairs:Q", title="Pairs"),
    ]
    one = (
        alt.Chart(alt.InlineData(values=[{"ratio": 1}]))
        .mark_rule(strokeDash=[5, 4])
        .encode(x=across, color=alt.value("var(--soft)"))
    )
    base = alt.Chart(alt.InlineData(values=dots)).encode(y=up, color=_variant_colour(variants), tooltip=tooltip)
    rule = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    points = base.mark_circle(size=110, opacity=1).encode(x=across)
    return _finished(alt.layer(one, rule, points), 40 + 34 * len(dots))


def throughput(swept: Sequence[Swept], variants: Sequence[str]) -> Spec | None:
    """Aggregate tokens/s by streams, one line per variant, the knee as a ring; None with fewer than two levels."""
    import altair as alt

    drawn = [(one, line) for one in swept for line in one.lines if line.aggregate_tokens_per_s is not None]
    levels = sorted({line.streams for _, line in drawn})
    if len(levels) < 2:
        return None
    points = [
        {
            "variant": one.variant,
            "streams": line.streams,
            "rate": line.aggregate_tokens_per_s,
            "shown": line.cells[0].text,
            "speedup": str(line.speedup),
            "knee": line.is_knee,
        }
        for one, line in drawn
    ]
    axis = alt.Axis(values=levels, format="d", grid=False)
    across = alt.X(
        "streams:Q", title="Streams", axis=axis, scale=alt.Scale(type="log", base=2, domain=[levels[0], levels[-1]])
    )
    up = alt.Y("rate:Q", title="Aggregate tokens/s", scale=alt.Scale(zero=True))
    tooltip = [
        alt.Tooltip("variant:N", title="Variant"),
        alt.Tooltip("streams:Q", title="Streams"),
        alt.Tooltip("shown:N", title="Aggregate tokens/s"),
        alt.Tooltip("speedup:N", title="Against the baseline"),
    ]
    base = alt.Chart(alt.InlineData(values=points)).encode(x=across, y=up, color=_variant_colour(variants))
    joined = base.mark_line(strokeWidth=2)
    dots = base.mark_circle(size=60, opacity=1).encode(tooltip=tooltip)
    knee = base.transform_filter("datum.knee").mark_point(size=220, strokeWidth=2, filled=False)
    return _finished(alt.layer(joined, knee, dots), 300)


def _variant_colour(variants: Sequence[str]) -> Any:
    import altair as alt

    colours = [colour(position) for position in range(len(variants))]
    return alt.Color("variant:N", legend=None, scale=alt.Scale(domain=list(variants), range=colours))


def _point(row: Row, pick: str | None, x: Metric, scale: float) -> dict[str, Any]:
    value = row.value(x.name)
    assert value is not None
    texts = {metric.name: str(cells.of_row(row, metric)) for metric in cells.COLUMNS}
    role = PICKED if row.variant == pick else ON_FRONTIER if row.on_frontier else DOMINATED
    return texts | {
        "variant": row.variant,
        "role": role,
        "x": value / scale,
        "y": row.value(_QUALITY.name),
        "low": row.value(_QUALITY.low),
        "high": row.value(_QUALITY.high),
        "memory": row.value(_MEMORY.name) or 0,
    }


def _place_labels(points: Sequence[dict[str, Any]]) -> None:
    """Of two points that are each other's nearest along x, the higher one has its label above, the other below."""
    for point in points:
        others = [other for other in points if other is not point]
        nearest = min(others, key=lambda other: abs(other["x"] - point["x"]), default=None)
        point["above"] = nearest is None or (point["y"], point["variant"]) > (nearest["y"], nearest["variant"])


def _best_line(points: Sequence[dict[str, Any]], higher_is_better: bool) -> list[dict[str, float]]:
    """The points that are not dominated on these two axes, along x."""
    by_name = {point["variant"]: (point["x"], point["y"]) for point in points}
    beaten = frontier.dominators(by_name, [higher_is_better, True])
    best = sorted(by_name[name] for name, rivals in beaten.items() if not rivals)
    return [{"x": x, "y": y} for x, y in best]


def _axis_unit(metric: Metric, rows: Sequence[Row]) -> tuple[float, str]:
    """What to divide by, and the unit of the axis where the title does not say it."""
    if metric.unit != "bytes":
        return 1, ""
    largest = max(row.value(metric.name) or 0 for row in rows)
    return (display.GIB, "GiB") if largest >= 2 * display.GIB else (display.MIB, "MiB")


def _finished(chart: Any, height: int) -> Spec:
    """Filling the width of its place, on the page's own background and in its own type."""
    styled = (
        chart.properties(width="container", height=height)
        .configure(
            background="transparent", font="system-ui, sans-serif", autosize={"type": "fit-x", "contains": "padding"}
        )
        .configure_view(stroke=None)
        .configure_axis(
            labelColor="var(--soft)",
            titleColor="var(--soft)",
            titleFontWeight="normal",
            gridColor="var(--line)",
            domainColor="var(--line)",
            tickColor="var(--line)",
            labelFontSize=12,
            titleFontSize=12,
            titlePadding=8,
        )
        .configure_text(fontSize=12)
    )
    return cast(Spec, styled.to_dict())
