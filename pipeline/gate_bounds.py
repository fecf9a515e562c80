"""Bounds of gates as people write them: a number in the metric's unit, or a text with a unit, as reports show them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from pydantic import ByteSize, TypeAdapter, ValidationError

from pipeline.metrics.catalogue import BY_NAME

_PER_UNIT: Mapping[str, Mapping[str, float]] = {
    "s": {"ms": 1000, "s": 1},
    "share": {"%": 100, "pp": 100},
    "ratio": {"×": 1, "x": 1, "%": 100},
}
"""How many of each unit that may be written make one of the metric's."""
_EXAMPLES = {"bytes": "24 GiB", "s": "500 ms", "share": "2 % or 2 pp", "ratio": "1.3×"}
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
