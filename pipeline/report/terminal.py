"""The table of `quantgate show`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.records import Status
from pipeline.report import cells
from pipeline.report.analysis import Analysis
from pipeline.report.rows import Row

_STATUS_STYLES = {Status.OK: "green", Status.FAILED: "red", Status.INVALID: "magenta"}
_NARROW = (
    "quality",
    "quality_delta",
    "decode_tokens_per_s",
    "speedup",
    "ttft_s_p50",
    "weight_bytes",
    "peak_memory_bytes",
)
"""What fits a terminal; the other columns are in reports/pareto.csv."""
_WIDE = 120
"""Characters below which variants stand side by side, each figure on a line of its own."""


def table(analysis: Analysis, width: int) -> Table:
    """The main figures of every variant, laid out for a terminal of `width` characters."""
    figures = _figures(analysis)
    header = ["Variant", "Status", *(title for title, _ in figures), "Frontier"]
    rows = [
        [
            Text(row.variant, style="bold green" if row.variant == analysis.decision.pick else "bold"),
            Text(row.status.value, style=_STATUS_STYLES[row.status]),
            *(Text(values[place]) for _, values in figures),
            Text(row.place or cells.DASH),
        ]
        for place, row in enumerate(analysis.rows)
    ]
    found = Table(header_style="bold", title_justify="left", title=analysis.decision.headline)
    if width >= _WIDE:
        for title in header:
            found.add_column(title, justify="left" if title in ("Variant", "Status", "Frontier") else "right")
        for row in rows:
            found.add_row(*row)
        return found
    found.add_column(header[0])
    for row in rows:
        found.add_column(row[0], justify="right")
    for line, title in enumerate(header[1:], start=1):
        found.add_row(title, *(row[line] for row in rows))
    return found


def _figures(analysis: Analysis) -> list[tuple[str, list[str]]]:
    """Title and the cell of each variant."""
    figures = [(metric.title, [str(cells.of_row(row, metric)) for row in analysis.rows]) for metric in _columns()]
    decided = analysis.decision.variants
    scores = [str(cells.score(found.score, found.score_ci_low, found.score_ci_high)) for found in decided]
    return [*figures, (f"Score, {analysis.decision.profile}", scores)]


def _columns() -> list[Metric]:
    return [metric for metric in cells.COLUMNS if metric.name in _NARROW]


def footnotes(analysis: Analysis) -> Group:
    """Reasons of failures and of numbers that are missing though the variant is ok, and how to read the columns."""
    return Group(*(Text(note) for row in analysis.rows for note in _notes(row)), *map(Text, _reading(analysis)))


def _reading(analysis: Analysis) -> Iterator[str]:
    paired, rate, decision = BY_NAME["speedup"].title, BY_NAME["decode_tokens_per_s"].title, analysis.decision
    yield (
        f"{paired} is paired: each variant was measured in alternation with {decision.baseline}, so it is no "
        f"quotient of two {rate}. Intervals are 95 %; speed is that of workload {decision.workload}."
    )
    yield analysis.frontier_words(_columns())
    yield f"Ranked by {analysis.ranked_by}; {analysis.tie}."


def _notes(row: Row) -> list[str]:
    if not row.ok:
        return [f"{row.variant} {row.status.value}: {row.reason}"]
    absent = [metric for metric in cells.COLUMNS if row.value(metric.name) is None]
    return [f"{row.variant}: no {metric.title}: {row.readings[metric.name].reason}" for metric in absent]
