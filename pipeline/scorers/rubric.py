"""The target of an answer that a language model judges (`pipeline.judge`)."""

from __future__ import annotations

from typing import Any

from pipeline.scorers.targets import is_text, shape_problems


def target_problems(target: Any) -> list[str]:
    if found := shape_problems(target, '{"rubric": "…"}, with or without "reference"', {"rubric"}, {"reference"}):
        return found
    return [f"target.{name} must be a text, got {value!r}" for name, value in target.items() if not is_text(value)]
