"""What stands in a cell of the table: text for people, and the reason where a number is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.metrics import display, validity
from pipeline.metrics.catalogue import BY_NAME, EXTRA, MAIN, METRICS, Metric
from pipeline.metrics.pairing import Speedup
from pipeline.records import Interval, Reading, known, missing
from pipeline.report.rows import Row

DASH = "–"
_BOUNDS = {bound for metric in METRICS for bound in (metric.low, metric.high)}


def _for_people(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    """Without the bounds of an interval: they stand in the cell of its metric."""
    return tuple(metric for metric in metrics if metric.name not in _BOUNDS)


COLUMNS: tuple[Metric, ...] = _for_people(MAIN)
MORE_COLUMNS: tuple[Metric, ...] = _for_people(EXTRA)


@dataclass(frozen=True)
class Cell:
    text: str
    interval: str = ""
    """Low to high, where there is one."""
    reason: str = ""
    """Why the number is missing, or what to know about it."""
    value: float | None = field(default=None, compare=False)
    """In the metric's own unit, to sort by; None where it is missing or is no number."""

    def __str__(self) -> str:
        return f"{self.text} ({self.interval})" if self.interval else self.text


def title(metric: Metric, currency: str) -> str:
    """The heading of its column; amounts of money say in which currency."""
    return f"{metric.title}, {currency}" if metric.unit == "currency" else metric.title


def absent(reason: str) -> Cell:
    """A number that is missing, or that must not be used."""
    return Cell(validity.INVALID if validity.is_invalid(reason) else DASH, reason=reason)


def of_row(row: Row, metric: Metric) -> Cell:
    low = row.readings[metric.low] if metric.low else None
    high = row.readings[metric.high] if metric.high else None
    return reading(metric, row.readings[metric.name], low, high)


def reading(metric: Metric, found: Reading, low: Reading | None = None, high: Reading | None = None) -> Cell:
    """The value with its interval; a value whose interval is missing says why when it is opened."""
    if found.value is None:
        return absent(found.reason or "")
    if low is None or high is None:
        return Cell(metric.display(found.value), value=found.value)
    if low.value is None or high.value is None:
        return Cell(metric.display(found.value), reason=f"no interval: {low.reason or high.reason}", value=found.value)
    return Cell(metric.display(found.value), interval(metric, low.value, high.value), value=found.value)


def score(found: Reading, low: Reading, high: Reading) -> Cell:
    """A score under a profile, e.g. `1.12 (1.10 to 1.15)`; of values without an interval the number alone."""
    if found.value is None:
        return absent(found.reason or "")
    if low.value is None or high.value is None:
        return Cell(_two_digits(found.value), reason=f"no interval: {low.reason or high.reason}", value=found.value)
    if low.value == high.value:
        return Cell(_two_digits(found.value), value=found.value)
    return Cell(_two_digits(found.value), display.span(_two_digits, low.value, high.value), value=found.value)


def _two_digits(value: float) -> str:
    return f"{value:.2f}"


def interval(metric: Metric, low: float, high: float) -> str:
    """Its ends in the unit in which the metric is shown; the × of a ratio stands at its value alone."""
    return display.span(metric.display, low, high).replace("×", "")


def of_ratio(metric: Metric, found: Speedup | str) -> Cell:
    """A ratio to the baseline on any workload, shown like that of the headline workload."""
    if isinstance(found, str):
        return reading(metric, missing(found))
    return reading(metric, known(found.ratio), found.low, found.high)


def of_interval(interval: Interval | None, reason: str) -> Cell:
    """A mean score with its interval; `reason` says why where there is none."""
    if interval is None:
        return absent(reason)
    return reading(BY_NAME["quality"], known(interval.mean), interval.ci_low, interval.ci_high)
