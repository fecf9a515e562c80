"""Vega-Lite specifications of the charts. Colours are CSS variables of the page, so they follow light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pipeline.report.breakdown.concurrency import Swept
from pipeline.report.breakdown.pairing import Line
from pipeline.report.breakdown.quality import CategoryScore

ROLES = {
    "recommended": ("var(--pick)", "diamond"),
    "on the frontier": ("var(--accent)", "circle"),
    "dominated": ("var(--muted)", "triangle-down"),
    "not placed": ("var(--wait)", "square"),
}
"""Colour and shape of a point by where its variant stands; plots.js says which it is."""
VARIANT_COLOURS = 8

Spec = dict[str, Any]


def colour(position: int) -> str:
    """CSS colour of the variant at this place in params.yaml."""
    return f"var(--variant-{position % VARIANT_COLOURS + 1})"


def tradeoff() -> Spec:
    """Any two axes, each with its interval. The page puts in the points, and the titles for the words in braces."""
    import altair as alt

    scale = alt.Scale(zero=False, padding=24, nice=True)
    across, up = alt.X("x:Q", title="{x-axis}", scale=scale), alt.Y("y:Q", title="{y-axis}", scale=scale)
    tooltip = [
        alt.Tooltip("variant:N", title="Variant"),
        alt.Tooltip("place:N", title="Frontier"),
        alt.Tooltip("x_shown:N", title="{x}"),
        alt.Tooltip("y_shown:N", title="{y}"),
    ]
    domain, colours, shapes = zip(*((role, colour, shape) for role, (colour, shape) in ROLES.items()), strict=True)
    base = alt.Chart(alt.NamedData("points")).encode(
        color=alt.Color("role:N", legend=None, scale=alt.Scale(domain=domain, range=colours)),
        opacity=alt.Opacity("strength:Q", legend=None, scale=None),
        tooltip=tooltip,
    )
    wide = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("x_low:Q", title="{x-axis}"), x2="x_high:Q", y=up)
    high = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("y_low:Q", title="{y-axis}"), y2="y_high:Q", x=across)
    shape = alt.Shape("role:N", legend=None, scale=alt.Scale(domain=domain, range=shapes))
    marks = base.mark_point(filled=True, size=130, cursor="pointer").encode(x=across, y=up, shape=shape)
    written: Spec = {"dy": alt.expr("datum.above ? -16 : 18"), "fontWeight": "bold", "limit": 130, "cursor": "pointer"}
    halo = base.mark_text(**written, stroke="var(--card)", strokeWidth=4).encode(x=across, y=up, text="label:N")
    labels = base.mark_text(**written).encode(x=across, y=up, text="label:N", color=alt.value("var(--ink)"))
    return _finished(alt.layer(wide, high, marks, halo, labels), 320)


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
    across = alt.X(
        "mean:Q", title="Mean score", axis=alt.Axis(format=".0%", tickCount=5), scale=alt.Scale(domain=[0, 1])
    )
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


def _finished(chart: Any, height: int) -> Spec:
    """Filling the width of its place, on the page's own background and in its own type."""
    styled = (
        chart.properties(width="container", height=height)
        .configure(
            background="transparent",
            font="system-ui, sans-serif",
            autosize={"type": "fit-x", "contains": "padding"},
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
