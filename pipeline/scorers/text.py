"""Scorers on plain text: the whole answer, the choice named first, phrases contained, a pattern matched."""

from __future__ import annotations

import re
from typing import Any

from pipeline.scorers.targets import are_texts, is_text, shape_problems
from pipeline.scorers.words import phrase, plain

_PERIODS = ".。．｡"


def exact(output: str, target: dict[str, Any]) -> float:
    """1 when the whole output is an answer; case, surplus white space and a final period are ignored."""
    answers = target.get("any_of") or [target["answer"]]
    return float(_whole(output) in {_whole(answer) for answer in answers})


def exact_target_problems(target: Any) -> list[str]:
    form = '{"answer": "…"} or {"any_of": […]}'
    if shape_problems(target, form, {"answer"}) and shape_problems(target, form, {"any_of"}):
        return [f"target must be {form}"]
    if "answer" in target:
        return [] if is_text(target["answer"]) else ["target.answer must be a text"]
    return [] if are_texts(target["any_of"]) else ["target.any_of must be a list of at least one text"]


def choice(output: str, target: dict[str, Any]) -> float:
    """1 when the first choice named in the output is the answer; of two that begin at one place the longer counts."""
    found = []
    for name in target["choices"]:
        match = phrase(name).search(output)
        if match:
            found.append((match.start(), -len(name), name))
    return float(bool(found) and min(found)[2] == target["answer"])


def choice_target_problems(target: Any) -> list[str]:
    if found := shape_problems(target, '{"answer": …, "choices": […]}', {"answer", "choices"}):
        return found
    choices = target["choices"]
    if not are_texts(choices) or len(choices) < 2:
        return ["target.choices must be a list of at least two texts"]
    if len({plain(choice) for choice in choices}) != len(choices):
        return ["target.choices has the same choice twice (case and white space make no difference)"]
    if target["answer"] not in choices:
        return [f"target.answer {target['answer']!r} is not among its choices ({', '.join(choices)})"]
    return []


def contains_any(output: str, target: dict[str, Any]) -> float:
    """1 when any of the phrases stands in the output as whole words, without regard to case."""
    return float(_stands(target["any_of"], output))


def contains_any_target_problems(target: Any) -> list[str]:
    form = '{"any_of": […]} with at least one text'
    return shape_problems(target, form, {"any_of"}) or (
        [] if are_texts(target["any_of"]) else [f"target must be {form}"]
    )


def contains_all(output: str, target: dict[str, Any]) -> float:
    """Share of the entries that stand in the output, each by any of its phrasings; 0 if a phrase of none_of does."""
    if _stands(target.get("none_of", []), output):
        return 0.0
    entries = [_phrasings(entry) for entry in target["all_of"]]
    return sum(_stands(phrasings, output) for phrasings in entries) / len(entries)


def contains_all_target_problems(target: Any) -> list[str]:
    form = '{"all_of": ["…" or ["…", …], …]}, with or without "none_of": ["…", …]'
    if found := shape_problems(target, form, {"all_of"}, {"none_of"}):
        return found
    found, entries, banned = [], target["all_of"], target.get("none_of", [])
    if not isinstance(entries, list) or not entries or not all(are_texts(_phrasings(entry)) for entry in entries):
        found.append("target.all_of must be a list of at least one entry, each a text or a list of texts")
    if banned != [] and not are_texts(banned):
        found.append("target.none_of must be a list of texts")
    if found:
        return found
    return [
        f"target.all_of {entry!r} can never be met: each of its phrasings holds a phrase of none_of"
        for entry in entries
        if all(_stands(banned, phrasing) for phrasing in _phrasings(entry))
    ]


def regex(output: str, target: dict[str, Any]) -> float:
    """1 when the whole output, trimmed, matches the pattern; `.` matches line ends too."""
    return float(re.fullmatch(target["pattern"], output.strip(), re.DOTALL) is not None)


def regex_target_problems(target: Any) -> list[str]:
    form = '{"pattern": "…"}'
    if found := shape_problems(target, form, {"pattern"}):
        return found
    if not isinstance(target["pattern"], str):
        return [f"target must be {form}"]
    try:
        re.compile(target["pattern"])
    except re.error as error:
        return [f"target.pattern is not a regular expression: {error}"]
    return []


def _whole(text: str) -> str:
    words = plain(text)
    return words[:-1].rstrip() if words.endswith(tuple(_PERIODS)) else words


def _stands(phrases: list[str], output: str) -> bool:
    return any(phrase(text).search(output) for text in phrases)


def _phrasings(entry: Any) -> Any:
    return [entry] if isinstance(entry, str) else entry
