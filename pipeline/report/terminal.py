"""The table of `quantgate show`."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

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


def table(analysis: Analysis) -> Table:
    columns = [metric for metric in cells.COLUMNS if metric.name in _NARROW]
    found = Table(header_style="bold", title_justify="left", title=analysis.decision.headline)
    found.add_column("Variant", no_wrap=True)
    found.add_column("Status")
    for metric in columns:
        found.add_column(metric.title, justify="right")
    found.add_column("Frontier")
    for row, decided in analysis.decided():
        picked = row.variant == analysis.decision.pick
        found.add_row(
            Text(row.variant, style="bold green" if picked else ""),
            Text(row.status.value, style=_STATUS_STYLES[row.status]),
            *(Text(str(cells.of_row(row, metric))) for metric in columns),
            Text("yes" if decided.on_frontier else "no" if row.ok else cells.DASH),
            style="dim" if not row.ok else "",
        )
    return found


def footnotes(analysis: Analysis) -> Group:
    """Reasons of failures, and of numbers that are missing though the variant is ok."""
    return Group(*(Text(note) for row in analysis.rows for note in _notes(row)))


def _notes(row: Row) -> list[str]:
    if not row.ok:
        return [f"{row.variant} {row.status.value}: {row.reason}"]
    absent = [metric for metric in cells.COLUMNS if row.value(metric.name) is None]
    return [f"{row.variant}: no {metric.title}: {row.readings[metric.name].reason}" for metric in absent]
