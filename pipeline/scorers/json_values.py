"""JSON inside an answer, and when two of its values are equal."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

SCALARS = (str, int, float, bool, type(None))
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?|[+-]?\.[0-9]+")


def first(output: str, openings: str) -> Any:
    """The first readable JSON value that begins with one of the openings (`{`, `[`), or None."""
    decoder = json.JSONDecoder(parse_constant=_refused, parse_float=_finite)
    for match in re.finditer(f"[{re.escape(openings)}]", output):
        try:
            return decoder.raw_decode(output, match.start())[0]
        except RecursionError:
            # A model in a loop; what begins one bracket later is as deep.
            return None
        except ValueError:
            continue
    return None


def equal(found: Any, wanted: Any) -> bool:
    """Numbers are compared as numbers, even when written as text; texts trimmed and without regard to case."""
    if isinstance(found, bool) or isinstance(wanted, bool) or found is None or wanted is None:
        return found is wanted
    left, right = _number(found), _number(wanted)
    if left is not None and right is not None:
        return left == right
    return isinstance(found, SCALARS) and str(found).strip().casefold() == str(wanted).strip().casefold()


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


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too large")
    return number
