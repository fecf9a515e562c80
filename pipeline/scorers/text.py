"""Scorers on plain text: the choice named first, a phrase contained, a pattern matched."""

from __future__ import annotations

import re
from typing import Any


def _phrase(phrase: str) -> re.Pattern[str]:
    """The phrase as whole words, without regard to case; any white space fits any other."""
    words = r"\s+".join(map(re.escape, phrase.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def choice(output: str, target: dict[str, Any]) -> float:
    """1 when the first choice named in the output is the answer; of two that begin at one place the longer counts."""
    found = []
    for name in target["choices"]:
        match = _phrase(name).search(output)
        if match:
            found.append((match.start(), -len(name), name))
    return float(bool(found) and min(found)[2] == target["answer"])


def choice_target_problems(target: Any) -> list[str]:
    if not isinstance(target, dict) or set(target) != {"answer", "choices"}:
        return ['target must be {"answer": …, "choices": […]}']
    choices = target["choices"]
    if not _are_texts(choices) or len(choices) < 2:
        return ["target.choices must be a list of at least two texts"]
    if len({" ".join(choice.casefold().split()) for choice in choices}) != len(choices):
        return ["target.choices has the same choice twice (case and white space make no difference)"]
    if target["answer"] not in choices:
        return [f"target.answer {target['answer']!r} is not among its choices ({', '.join(choices)})"]
    return []


def contains(output: str, target: dict[str, Any]) -> float:
    """1 when any of the phrases stands in the output as whole words, without regard to case."""
    return float(any(_phrase(phrase).search(output) for phrase in target["any_of"]))


def contains_target_problems(target: Any) -> list[str]:
    if not isinstance(target, dict) or set(target) != {"any_of"} or not _are_texts(target["any_of"]):
        return ['target must be {"any_of": […]} with at least one text']
    return []


def regex(output: str, target: dict[str, Any]) -> float:
    """1 when the whole output, trimmed, matches the pattern; `.` matches line ends too."""
    return float(re.fullmatch(target["pattern"], output.strip(), re.DOTALL) is not None)


def regex_target_problems(target: Any) -> list[str]:
    if not isinstance(target, dict) or set(target) != {"pattern"} or not isinstance(target["pattern"], str):
        return ['target must be {"pattern": "…"}']
    try:
        re.compile(target["pattern"])
    except re.error as error:
        return [f"target.pattern is not a regular expression: {error}"]
    return []


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) and text.strip() for text in value)
