"""The table of metrics in docs/metrics.md, from the catalogue: `python -m pipeline.metrics.reference` renews it."""

from __future__ import annotations

from pathlib import Path

from pipeline import store
from pipeline.metrics.catalogue import METRICS, Metric

PAGE = Path("docs/metrics.md")
BEGIN, END = "<!-- metrics: begin -->", "<!-- metrics: end -->"
_DIRECTIONS = {True: "higher", False: "lower", None: "neither"}


def table() -> str:
    lines = ["| Name | Title | Unit | Better | Interval | What it is |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*lines, *map(_line, METRICS)])


def renewed(page: str) -> str:
    """The page with the table between its markers made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _line(metric: Metric) -> str:
    interval = f"`{metric.low}`, `{metric.high}`" if metric.low else ""
    cells = (f"`{metric.name}`", metric.title, metric.unit, _DIRECTIONS[metric.higher_is_better], interval)
    return f"| {' | '.join(cells)} | {metric.formula} |"


if __name__ == "__main__":
    store.write_text(PAGE, renewed(PAGE.read_text(encoding="utf-8")))
