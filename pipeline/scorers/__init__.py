"""Scorers: pure functions from a model's output and an item's target to a score in 0..1.

A scorer is one function in this package, listed in `SCORERS` beside the check of its target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline.scorers import json_fields, json_schema, multiple_choice, numeric, python_tests, rubric, similarity, text


@dataclass(frozen=True)
class Scorer:
    score: Callable[[str, Any], float] | None
    """None where the output and the target do not decide alone: `pipeline.judge.scores` asks a language model."""
    target_problems: Callable[[Any], list[str]]
    """What is wrong with an item's target, for the author of the eval set."""


SCORERS: dict[str, Scorer] = {
    "exact": Scorer(text.exact, text.exact_target_problems),
    "choice": Scorer(text.choice, text.choice_target_problems),
    "contains_any": Scorer(text.contains_any, text.contains_any_target_problems),
    "contains_all": Scorer(text.contains_all, text.contains_all_target_problems),
    "regex": Scorer(text.regex, text.regex_target_problems),
    "numeric": Scorer(numeric.score, numeric.target_problems),
    "json_fields": Scorer(json_fields.score, json_fields.target_problems),
    "json_schema": Scorer(json_schema.score, json_schema.target_problems),
    "multiple_choice": Scorer(multiple_choice.score, multiple_choice.target_problems),
    "rouge_l": Scorer(similarity.rouge_l, similarity.target_problems),
    "chrf": Scorer(similarity.chrf, similarity.target_problems),
    "python_tests": Scorer(python_tests.score, python_tests.target_problems),
    "judge": Scorer(None, rubric.target_problems),
}
