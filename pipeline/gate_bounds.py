"""Bounds of gates as people write them: a number in the metric's unit, or a text with a unit, as reports show them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal

from pydantic import ByteSize, TypeAdapter, ValidationError

from pipeline.metrics.catalogue import BY_NAME, Metric

_PER_UNIT: Mapping[str, Mapping[str, float]] = {
    "s": {"ms": 1000, "s": 1},
    "share": {"%": 100, "pp": 100},
    "ratio": {"×": 1, "x": 1},
}
"""How many of each unit that may be written make one of the metric's."""
_EXAMPLES = {"bytes": "24 GiB", "s": "500 ms", "share": "2 % or 2 pp", "ratio": "1.3×"}
_SHOWN = re.compile(r"([+−-]?)([\d,.]+(?:e[+-]?\d+)?)(.*)")
"""Sign, number and unit of a value as reports show it."""
_AMOUNT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(\D*)")


def parse(bound: str, metric: str, *, relative: bool) -> float:
    """A bound with its unit, e.g. `24 GiB`, `500 ms`, `-2 pp`, in the unit of the metric.

    Raises:
        ValueError: it is no amount in a unit that the metric is measured in; the text goes on after "must be".
    """
    unit = BY_NAME[metric].unit if metric in BY_NAME else ""
    if relative:
        raise ValueError("must be a number: a relative bound is a multiple of the baseline's value, as in 0.5")
    if unit not in _EXAMPLES:
        raise ValueError("must be a number")
    found = _bytes(bound) if unit == "bytes" else _scaled(bound, _PER_UNIT[unit])
    if found is None:
        raise ValueError(f"must be a number in {_plural(unit)}, or an amount with its unit, as in {_EXAMPLES[unit]}")
    return found


# --- for people ------------------------------------------------------------------------------------------------


def written(metric: Metric, value: float, *, up: bool) -> str:
    """A value as reports show it, rounded to one side: `parse` reads it as `value` or, with
    `up`, as more than that, else as less."""
    return _rounded(metric.display(value), value, lambda text: _read(text, metric), up=up)


def multiple(value: float, base: float, *, up: bool) -> str:
    """A value as a multiple of the baseline's, as relative bounds are, rounded as by `written`."""
    return _rounded(f"{value / base:.3f}", value, lambda text: float(text) * base, up=up)


def _rounded(shown: str, value: float, read: Callable[[str], float], *, up: bool) -> str:
    """The text itself where it is on the right side, else with another last digit."""
    found = _SHOWN.fullmatch(shown)
    assert found, f"{shown!r} is no number with a unit"
    sign, digits, unit = found.groups()
    number = Decimal(digits.replace(",", "")) * (1 if sign in ("", "+") else -1)
    step = Decimal(1).scaleb(int(number.as_tuple().exponent)) * (1 if up else -1)
    grouped = "," if "," in digits else ""
    for _ in range(3):
        text = f"{'+' if sign == '+' else ''}{number:{grouped}f}{unit}".replace("-", "−")
        if (read(text) >= value) if up else (read(text) <= value):
            break
        number += step
    return text


def _read(text: str, metric: Metric) -> float:
    if metric.unit in _EXAMPLES:
        return parse(text, metric.name, relative=False)
    return float(text.replace(",", "").replace("−", "-"))


def told_apart(metric: Metric, one: float, other: float) -> tuple[str, str]:
    """Two values as reports show them, or with all their digits where they would look like one."""
    shown = metric.display(one), metric.display(other)
    if one == other or shown[0] != shown[1]:
        return shown
    found = _SHOWN.fullmatch(shown[0])
    unit = found[3] if found else ""
    scale = _PER_UNIT.get(metric.unit, {}).get(unit.strip())
    factor, name = (scale, unit) if scale else (1, f" {metric.unit}")
    texts = [[f"{each * factor:,.{digits}g}{name}".replace("-", "−") for each in (one, other)] for digits in (10, 17)]
    return next(((a, b) for a, b in texts if a != b), shown)


# --- reading ---------------------------------------------------------------------------------------------------


def _plural(unit: str) -> str:
    return {"s": "seconds", "share": "shares of one", "ratio": "multiples"}.get(unit, unit)


def _bytes(text: str) -> float | None:
    """As pydantic reads sizes: KiB, MiB, GiB by 1024, KB, MB, GB by 1000."""
    try:
        return float(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        return None


def _scaled(text: str, units: Mapping[str, float]) -> float | None:
    found = _AMOUNT.fullmatch(text.strip().replace("−", "-"))
    if found is None or found[2] not in units:
        return None
    amount = float(found[1]) / units[found[2]]
    return amount if math.isfinite(amount) else None
