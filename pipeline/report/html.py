"""The report for people: one self-contained HTML file that asks nothing of the network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.metrics import display
from pipeline.metrics.catalogue import BY_NAME
from pipeline.quality_records import Flaw
from pipeline.report import cells, charts, conditions, gates, warnings
from pipeline.report.analysis import Analysis
from pipeline.report.breakdown import (
    changes,
    concurrency,
    cost,
    failures,
    fidelity,
    memory,
    pairing,
    quality,
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
    ("speedup", "Speed-up"),
    ("speed", "Speed"),
    ("concurrency", "Concurrency"),
    ("memory", "Memory"),
    ("bounds", "Bounds"),
    ("cost", "Cost"),
    ("quality", "Quality"),
    ("fidelity", "Fidelity"),
    ("lost", "Lost items"),
    ("failures", "Failures"),
    ("conditions", "Conditions"),
    ("reproduce", "Reproduce"),
)
"""Of the page, each the id of a section and the name of its template, with its title in the navigation."""


def render(analysis: Analysis) -> str:
    import jinja2
    import vl_convert

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        **_context(analysis),
        style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        chart_library=vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"),
    )


def _context(analysis: Analysis) -> dict[str, Any]:
    params, gathered, decided = analysis.params, analysis.gathered, analysis.decision
    names = [row.variant for row in analysis.rows]
    currency = params.serving.currency
    return {
        "sections": SECTIONS,
        "model": params.model.name,
        "decision": decided,
        "decided": analysis.decided(),
        "ranked_by": analysis.ranked_by,
        "tie": analysis.tie,
        "frontier": analysis.frontier_words(cells.COLUMNS),
        "warnings": warnings.of(params, gathered),
        "gates": [(name, gates.describe(gate, analysis.baseline)) for name, gate in params.gates.items()],
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
        "fidelity": fidelity.lines(analysis.rows, gathered.variants),
        "fidelity_columns": fidelity.COLUMNS,
        "fidelity_text": params.fidelity.text,
        **_failures(analysis),
        "charts": _charts(analysis, names),
    }


def _speed(analysis: Analysis) -> dict[str, Any]:
    params, variants = analysis.params, analysis.gathered.variants
    objective = params.serving.objective
    ttft, tpot = display.milliseconds(objective.ttft_s), display.milliseconds(objective.tpot_s)
    return {
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
        "lost": list(quality.lost_items(gathered.variants)),
    }


def _failures(analysis: Analysis) -> dict[str, Any]:
    return {
        "failures": [row for row in analysis.rows if not row.ok],
        "refused": failures.refused(analysis.gathered.variants),
        "lost_requests": failures.lost(analysis.gathered.variants),
    }


def _charts(analysis: Analysis, names: list[str]) -> dict[str, charts.Spec]:
    """By the id of the place where each is drawn; a chart without data is left out."""
    variants, pick = analysis.gathered.variants, analysis.decision.pick
    found = {
        "chart-speed": charts.tradeoff(analysis.rows, pick, BY_NAME["decode_tokens_per_s"]),
        "chart-memory": charts.tradeoff(analysis.rows, pick, BY_NAME["peak_memory_bytes"]),
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
