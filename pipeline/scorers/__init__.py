"""Scorers: pure functions from a model's output and an item's target to a score in 0..1.

A scorer is one function in this package, listed in `SCORERS` beside the check of its target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline.scorers import json_fields, text


@dataclass(frozen=True)
class Scorer:
    score: Callable[[str, Any], float]
    target_problems: Callable[[Any], list[str]]
    """What is wrong with an item's target, for the author of the eval set."""


SCORERS: dict[str, Scorer] = {
    "choice": Scorer(text.choice, text.choice_target_problems),
    "contains": Scorer(text.contains, text.contains_target_problems),
    "regex": Scorer(text.regex, text.regex_target_problems),
    "json_fields": Scorer(json_fields.score, json_fields.target_problems),
}
