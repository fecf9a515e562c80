"""Rows with one question and its answer each, as they come from a CSV file or a data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.eval_sets.importers import CATEGORY, DraftItem, Refusals
from pipeline.eval_sets.importers._targets import answer_target


@dataclass(frozen=True)
class Columns:
    prompt: str
    answer: str
    choices: str | None = None
    category: str | None = None


def items(
    rows: Iterable[tuple[str, Mapping[str, Any]]], columns: Columns, scorer: str | None, refusals: Refusals
) -> list[DraftItem]:
    """One item per row, given as (place, row). Without a scorer: by likelihood where there are choices, else exact."""
    found = []
    for place, row in rows:
        try:
            choices = _texts(row[columns.choices]) if columns.choices else []
            used = scorer or ("multiple_choice" if choices else "exact")
            target = answer_target(used, _answers(row[columns.answer], choices), choices)
            prompt = _text(row[columns.prompt])
            category = _text(row[columns.category]).strip() if columns.category else CATEGORY
        except ValueError as error:
            refusals.add(place, str(error))
        else:
            found.append(DraftItem(place, category or CATEGORY, used, {"prompt": prompt}, target))
    return found


def _answers(value: Any, choices: list[str]) -> list[str]:
    """Right answers; a whole number among choices is the place of the right one, from 0."""
    if choices and isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < len(choices):
            raise ValueError(f"the answer is choice number {value}, counted from 0, of {len(choices)}")
        return [choices[value]]
    return _texts(value) if isinstance(value, list) else [_text(value)]


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of texts, got {value!r:.80}")
    return [_text(each) for each in value]


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"expected a text or a number, got {value!r:.80}")
    return str(value)
