"""How a stored value is shown to a person: bytes as MiB or GiB, seconds as ms, shares as per cent."""

from __future__ import annotations

import math
from collections.abc import Callable

KIB = 2**10
MIB = 2**20
GIB = 2**30


def memory(value: float) -> str:
    """Bytes → MiB below one GiB, else GiB."""
    if abs(value) >= GIB:
        return f"{value / GIB:.2f} GiB"
    return f"{value / MIB:.0f} MiB" if abs(value) >= 10 * MIB else f"{value / MIB:.2f} MiB"


def milliseconds(value: float) -> str:
    """Seconds → ms."""
    return f"{1000 * value:.0f} ms" if abs(value) >= 0.1 else f"{1000 * value:.1f} ms"


def seconds(value: float) -> str:
    return f"{value:.1f} s"


def rate(value: float) -> str:
    """Tokens per second; the unit stands in the title."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"


def ratio(value: float) -> str:
    return f"{value:.2f}×"


def fine_ratio(value: float) -> str:
    """A ratio that is near 1 where all is well."""
    return f"{value:.3f}×"


def perplexity(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def nats(value: float) -> str:
    """Three digits: mean and largest divergence differ by powers of ten."""
    return f"{value:.3g}"


def money(value: float) -> str:
    """An amount in the currency of params.yaml: two decimals, below 1 as many as three digits need."""
    decimals = 2 - math.floor(math.log10(abs(value))) if 0 < abs(value) < 1 else 2
    return f"{value:.{decimals}f}"


def share(value: float) -> str:
    """A share of one → per cent."""
    return f"{100 * value:.1f} %"


def points(value: float) -> str:
    """A difference of two shares → percentage points, with its sign."""
    rounded = round(100 * value, 1)
    sign = "−" if rounded < 0 else "+" if rounded > 0 else ""
    return f"{sign}{abs(rounded):.1f} pp"


def count(value: float) -> str:
    return f"{value:.0f}"


def bits(value: float) -> str:
    return f"{value:.2f}"


def small_memory(value: float) -> str:
    """Bytes → KiB."""
    return f"{value / KIB:.1f} KiB"


def per_second(value: float) -> str:
    """Requests per second; the unit stands in the title."""
    return f"{value:.2f}"


def span(show: Callable[[float], str], low: float, high: float) -> str:
    """An interval; a unit that both ends have is said once: `−5.8 to +0.4 pp`."""
    start, end = show(low), show(high)
    number, _, unit = start.rpartition(" ")
    return f"{number if number and end.endswith(f' {unit}') else start} to {end}"
