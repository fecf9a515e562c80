"""The report for people: one self-contained HTML file that asks nothing of the network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.metrics.catalogue import BY_NAME
from pipeline.report import breakdown, cells, charts, conditions, gates
from pipeline.report.analysis import Analysis

TEMPLATES = Path(__file__).with_name("templates")


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
    variants = [row.variant for row in analysis.rows]
    scores = breakdown.categories(gathered.variants)
    return {
        "model": params.model.name,
        "decision": decided,
        "decided": analysis.decided(),
        "ranked_by": analysis.ranked_by,
        "warnings": conditions.warnings(params, gathered),
        "gates": [(name, gates.describe(gate, analysis.baseline)) for name, gate in params.gates.items()],
        "columns": cells.COLUMNS,
        "more_columns": cells.MORE_COLUMNS,
        "cell": cells.of_row,
        "speed_columns": [metric for _, metric in breakdown.SPEED],
        "speed": breakdown.speed(gathered.variants, list(params.benchmark.workloads)),
        "variants": [(name, charts.colour(position)) for position, name in enumerate(variants)],
        "categories": _category_lines(scores),
        "lost": list(breakdown.lost_items(gathered.variants)),
        "failures": [row for row in analysis.rows if not row.ok],
        "conditions": conditions.describe(params, gathered),
        "charts": _charts(analysis, scores, variants),
    }


def _charts(analysis: Analysis, scores: list[breakdown.CategoryScore], variants: list[str]) -> dict[str, charts.Spec]:
    """By the id of the place where each is drawn; a chart without data is left out."""
    pick = analysis.decision.pick
    found = {
        "chart-speed": charts.tradeoff(analysis.rows, pick, BY_NAME["decode_tokens_per_s"]),
        "chart-memory": charts.tradeoff(analysis.rows, pick, BY_NAME["peak_memory_bytes"]),
        "chart-categories": charts.categories(scores, variants),
    }
    return {place: spec for place, spec in found.items() if spec is not None}


@dataclass(frozen=True)
class CategoryLine:
    eval_set: str
    category: str
    items: int
    cells: tuple[cells.Cell, ...]
    """In the order of the variants."""


def _category_lines(scores: list[breakdown.CategoryScore]) -> list[CategoryLine]:
    lines: dict[tuple[str, str], list[breakdown.CategoryScore]] = {}
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
