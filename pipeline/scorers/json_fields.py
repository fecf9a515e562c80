"""Extraction to a flat JSON object: the share of fields that came out right."""

from __future__ import annotations

import json
from typing import Any

_SCALARS = (str, int, float, bool, type(None))


def score(output: str, target: dict[str, Any]) -> float:
    """Share of the target's fields with an equal value in the first JSON object of the output; 0 without one."""
    found = _first_object(output)
    if found is None:
        return 0.0
    return sum(name in found and _equal(found[name], value) for name, value in target.items()) / len(target)


def target_problems(target: Any) -> list[str]:
    if not isinstance(target, dict) or not target:
        return ["target must be a JSON object with at least one field"]
    return [
        f"target field {name!r} must be a text, number, true, false or null"
        for name, value in target.items()
        if not isinstance(value, _SCALARS)
    ]


def _first_object(output: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    start = output.find("{")
    while start != -1:
        try:
            value, _ = decoder.raw_decode(output, start)
        except (json.JSONDecodeError, RecursionError):
            start = output.find("{", start + 1)
        else:
            return dict(value)
    return None


def _equal(found: Any, wanted: Any) -> bool:
    """Numbers are compared as numbers, even when written as text; texts trimmed and without regard to case."""
    if isinstance(found, bool) or isinstance(wanted, bool) or found is None or wanted is None:
        return found is wanted
    left, right = _number(found), _number(wanted)
    if left is not None and right is not None:
        return left == right
    return isinstance(found, _SCALARS) and str(found).strip().casefold() == str(wanted).strip().casefold()


def _number(value: Any) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    # float() also takes "1_000", "nan" and "infinity", which no one means as a number in a mail.
    if isinstance(value, str) and value.strip().lstrip("+-").replace(".", "", 1).isdecimal():
        return float(value)
    return None
