"""The report for people: one self-contained HTML file that asks nothing of the network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.metrics import display
from pipeline.quality_records import Flaw
from pipeline.report import cells, charts, conditions, embed, flips, tradeoff, warnings
from pipeline.report.analysis import Analysis
from pipeline.report.breakdown import (
    changes,
    concurrency,
    cost,
    failures,
    fidelity,
    gated,
    memory,
    pairing,
    quality,
    quantization,
    ranked,
    roofline,
    speed,
)
from pipeline.report.gather import Gathered
from pipeline.report.rows import NOT_NATIVE

TEMPLATES = Path(__file__).with_name("templates")
SECTIONS = (
    ("decision", "Decision"),
    ("tradeoff", "Trade-off"),
    ("table", "Table"),
    ("gates", "Gates"),
    ("speed", "Speed"),
    ("memory", "Memory"),
    ("quality", "Quality"),
    ("flips", "Flips"),
    ("fidelity", "Fidelity"),
    ("quantization", "Quantization"),
    ("failures", "Failures"),
    ("conditions", "Conditions"),
    ("reproduce", "Reproduce"),
)
"""Of the page, each the id of a section and the name of its template, with its title in the navigation."""
SPEED_PARTS = ("speedup", "workloads", "concurrency", "bounds", "cost")
"""Of the section on speed, each the id of a part and the name of its template."""
SCRIPTS = ("page.js", "tables.js", "plots.js", "flips.js")
"""Each runs as a module of its own; what they share stands at the top of page.js."""


def render(analysis: Analysis) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = [_chart_library(), *map(_file, SCRIPTS)]
    return environment.get_template("report.html.j2").render(
        **_context(analysis),
        style=_file("report.css"),
        scripts=scripts,
        script_sources=" ".join(map(embed.script_source, scripts)),
    )


@cache
def _chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; bundling them takes seconds."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _file(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _context(analysis: Analysis) -> dict[str, Any]:
    params, gathered = analysis.params, analysis.gathered
    names = [row.variant for row in analysis.rows]
    currency = params.serving.currency
    return {
        "sections": SECTIONS,
        "model": params.model.name,
        **_decision(analysis),
        "frontier": analysis.frontier_words(cells.COLUMNS),
        "warnings": warnings.of(params, gathered),
        "gates": gated.lines(analysis),
        "columns": cells.COLUMNS,
        "more_columns": cells.MORE_COLUMNS,
        "cell": cells.of_row,
        "currency": currency,
        "title": lambda metric: cells.title(metric, currency),
        "not_native": NOT_NATIVE,
        "variants": [(name, charts.colour(position)) for position, name in enumerate(names)],
        "conditions": conditions.describe(params, gathered),
        **_speed(analysis),
        **_serving(analysis),
        **_quality(gathered),
        **_flips(gathered, analysis.baseline.variant),
        "quantization": quantization.lines(gathered.variants),
        "quantization_notes": list(quantization.notes(gathered.variants)),
        "fidelity": fidelity.lines(analysis.rows, gathered.variants),
        "fidelity_columns": fidelity.COLUMNS,
        "fidelity_text": params.fidelity.text,
        **_failures(analysis),
        **_drawings(analysis, names),
    }


def _decision(analysis: Analysis) -> dict[str, Any]:
    decided = analysis.decision
    profiles = ranked.profiles(analysis.params, decided)
    return {
        "decision": decided,
        "decided": analysis.decided(),
        "scores": [cells.score(each.score, each.score_ci_low, each.score_ci_high) for each in decided.variants],
        "profiles": profiles,
        "other_profiles": [(each.name, each.pick) for each in profiles if each.name != decided.profile],
        "tie": analysis.tie,
    }


def _speed(analysis: Analysis) -> dict[str, Any]:
    params, variants = analysis.params, analysis.gathered.variants
    objective = params.serving.objective
    ttft, tpot = display.milliseconds(objective.ttft_s), display.milliseconds(objective.tpot_s)
    return {
        "speed_parts": SPEED_PARTS,
        "speedups": pairing.lines(variants, params),
        "speedup_metric": pairing.SPEEDUP,
        "work_metric": pairing.WORK,
        "speed": speed.by_workload(variants, params),
        "rate_columns": speed.RATES,
        "latency_columns": speed.LATENCIES,
        "swept": concurrency.of(variants),
        "level_columns": [metric for _, metric in concurrency.COLUMNS],
        "sweep_workload": params.benchmark.sweep.workload,
        "static_batch": concurrency.STATIC_BATCH,
        "objective": f"TTFT ≤ {ttft} and TPOT ≤ {tpot}",
        "bounds": roofline.lines(variants),
        "device_limits": roofline.device(variants),
    }


def _serving(analysis: Analysis) -> dict[str, Any]:
    params, variants = analysis.params, analysis.gathered.variants
    price = params.serving.price_per_hour
    return {
        "memory_kind": memory.kind(variants),
        "memory_gib": f"{params.serving.memory_gib:g}",
        "memory_warnings": list(memory.strangers(variants)),
        "memory_notes": list(memory.notes(variants)),
        "contexts": memory.contexts(variants),
        "memory_sizes": memory.sizes(variants),
        "memory_peaks": memory.peaks(variants),
        "costs": cost.lines(variants, params),
        "price": None if price is None else f"{display.money(price)} {params.serving.currency}",
    }


def _quality(gathered: Gathered) -> dict[str, Any]:
    return {
        "categories": _category_lines(quality.categories(gathered.variants)),
        "changes": changes.of(gathered.variants),
        "answers": changes.answers(gathered.variants),
        "flaws": list(Flaw),
    }


def _flips(gathered: Gathered, baseline: str) -> dict[str, Any]:
    flipped = flips.found(gathered.variants)
    data = flips.payload(flipped) | {"baseline": baseline}
    return {
        "flip_counts": flips.counts(gathered.variants, flipped),
        "flip_data": data,
        "flip_json": embed.to_json(data),
    }


def _failures(analysis: Analysis) -> dict[str, Any]:
    return {
        "failures": [row for row in analysis.rows if not row.ok],
        "refused": failures.refused(analysis.gathered.variants),
        "lost_requests": failures.lost(analysis.gathered.variants),
    }


def _drawings(analysis: Analysis, names: list[str]) -> dict[str, Any]:
    drawn = _charts(analysis, names)
    traded = tradeoff.payload(analysis.params, analysis.rows, analysis.decision.pick)
    return {
        "charts": drawn,
        "tradeoff": traded,
        "tradeoff_plots": tradeoff.plots(analysis.params, traded["axes"]) if traded else [],
        "chart_json": embed.to_json({"charts": drawn, "tradeoff": traded}),
    }


def _charts(analysis: Analysis, names: list[str]) -> dict[str, charts.Spec]:
    """By the id of the place where each is drawn; a chart without data is left out."""
    variants = analysis.gathered.variants
    found = {
        "chart-speedups": charts.speedups(pairing.lines(variants, analysis.params), names),
        "chart-concurrency": charts.throughput(concurrency.of(variants), names),
        "chart-categories": charts.categories(quality.categories(variants), names),
    }
    return {place: spec for place, spec in found.items() if spec is not None}


@dataclass(frozen=True)
class CategoryLine:
    eval_set: str
    category: str
    items: int
    cells: tuple[cells.Cell, ...]
    """In the order of the variants."""


def _category_lines(scores: list[quality.CategoryScore]) -> list[CategoryLine]:
    lines: dict[tuple[str, str], list[quality.CategoryScore]] = {}
    for score in scores:
        lines.setdefault((score.eval_set, score.category), []).append(score)
    return [
        CategoryLine(
            eval_set=eval_set,
            category=category,
            items=max((score.interval.n for score in line if score.interval), default=0),
            cells=tuple(score.cell for score in line),
        )
        for (eval_set, category), line in lines.items()
    ]
