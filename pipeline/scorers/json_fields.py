"""Extraction to a flat JSON object: the share of fields that came out right."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?|[+-]?\.[0-9]+")
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
        except (ValueError, RecursionError):
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


def _number(value: Any) -> Decimal | None:
    """The exact value of a number, or of a text that is one as people write it: no exponent, no `nan`, no `1_000`."""
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    if isinstance(value, str) and not _NUMBER.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
