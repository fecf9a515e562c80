"""What stands in a cell of the table: text for people, and the reason where a number is missing."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.metrics import display
from pipeline.metrics.catalogue import BY_NAME, EXTRA, MAIN, Metric
from pipeline.records import Interval, Reading, known
from pipeline.report.rows import Row

DASH = "–"

_BOUNDS = {bound for metric in MAIN for bound in (metric.low, metric.high)}
COLUMNS: tuple[Metric, ...] = tuple(metric for metric in MAIN if metric.name not in _BOUNDS)
"""Columns for people: the bounds of an interval stand in the cell of its metric."""
MORE_COLUMNS: tuple[Metric, ...] = EXTRA


@dataclass(frozen=True)
class Cell:
    text: str
    interval: str = ""
    """Low to high, where there is one."""
    reason: str = ""
    """Why the number is missing."""

    def __str__(self) -> str:
        return f"{self.text} ({self.interval})" if self.interval else self.text


def of_row(row: Row, metric: Metric) -> Cell:
    low = row.readings[metric.low] if metric.low else None
    high = row.readings[metric.high] if metric.high else None
    return reading(metric, row.readings[metric.name], low, high)


def reading(metric: Metric, found: Reading, low: Reading | None = None, high: Reading | None = None) -> Cell:
    if found.value is None:
        return Cell(DASH, reason=found.reason or "")
    if low is None or high is None or low.value is None or high.value is None:
        return Cell(metric.display(found.value))
    return Cell(metric.display(found.value), display.span(metric.display, low.value, high.value))


def of_interval(interval: Interval | None, reason: str) -> Cell:
    """A mean score with its interval; `reason` says why where there is none."""
    if interval is None:
        return Cell(DASH, reason=reason)
    return reading(BY_NAME["quality"], known(interval.mean), interval.ci_low, interval.ci_high)
