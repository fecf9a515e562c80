"""What several scorers ask of a target."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any


def shape_problems(target: Any, form: str, required: Set[str], optional: Set[str] = frozenset()) -> list[str]:
    """That a target is no object with these keys, told by the form that it should have."""
    if isinstance(target, dict) and required <= set(target) <= required | optional:
        return []
    return [f"target must be {form}"]


def are_texts(value: Any) -> bool:
    """A list of at least one text, none of them blank."""
    return isinstance(value, list) and bool(value) and all(is_text(text) for text in value)


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
