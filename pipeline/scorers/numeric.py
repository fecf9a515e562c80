"""A number as people write it: the last one of the output against the one wanted."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from pipeline.scorers.targets import is_number, shape_problems
from pipeline.scorers.words import CJK, WORD_CHARACTER

_MINUS = "-\u2212\uff0d\ufe63\u2013"
_NUMBER = re.compile(
    rf"""
    (?<!{WORD_CHARACTER})             # no part of a word or code: the 4 of A4 is no number
    (?:
        (?<![)\]])(?<!\d[{CJK}])(?<!\d[{CJK}]{{2}})    # 3天-5天 is a range
        (?P<minus>[{_MINUS}])[$€£¥￥]?
    )?
    (?P<digits>
        (?:\d{{1,3}}(?:(?:[,'’\u00a0\u2009\u202f]|(?<=[０-９])，)\d{{3}})+(?!\d)|\d+)
        (?:[.．]\d+)?
        |[.．]\d+
    )
    (?P<exponent>[eE][+-]?\d{{1,3}}(?!{WORD_CHARACTER}))?
    """,
    re.VERBOSE,
)
_SEPARATORS = re.compile("[,'’\u00a0\u2009\u202f，]")


def score(output: str, target: dict[str, Any]) -> float:
    """1 when |last number - value| ≤ max(tolerance, relative × |value|); 0 without a number.

    A sign of per cent or of a currency, or a unit, is not looked at: 12.5 % is 12.5.
    """
    found = last_number(output)
    if found is None:
        return 0.0
    value = _exact(target["value"])
    allowed = max(_exact(target.get("tolerance", 0)), _exact(target.get("relative", 0)) * abs(value))
    return float(abs(found - value) <= allowed)


def last_number(text: str) -> Decimal | None:
    """The last number in a text, in digits of any script; a comma groups thousands and is never a decimal one."""
    matches = list(_NUMBER.finditer(text))
    if not matches:
        return None
    match = matches[-1]
    digits = _SEPARATORS.sub("", match["digits"]).replace("．", ".")
    return Decimal(("-" if match["minus"] else "") + digits + (match["exponent"] or ""))


def target_problems(target: Any) -> list[str]:
    form = '{"value": 12.5}, with or without "tolerance" and "relative"'
    if found := shape_problems(target, form, {"value"}, {"tolerance", "relative"}):
        return found
    found = [] if is_number(target["value"]) else [f"target.value must be a number, got {target['value']!r}"]
    return found + [
        f"target.{name} must be a number of at least 0, got {target[name]!r}"
        for name in ("tolerance", "relative")
        if name in target and not (is_number(target[name]) and target[name] >= 0)
    ]


def _exact(number: float) -> Decimal:
    return Decimal(str(number))
