"""An answer as the target of a scorer, for formats that say what is right but not how to compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipeline.errors import UserError, nearest
from pipeline.scorers import SCORERS


def _one(answers: Sequence[str]) -> str:
    if len(answers) != 1:
        raise ValueError(f"takes one answer, got {len(answers)}")
    return answers[0]


def _exact(answers: Sequence[str], _: Sequence[str]) -> dict[str, Any]:
    return {"answer": answers[0]} if len(answers) == 1 else {"any_of": list(answers)}


def _contains_any(answers: Sequence[str], _: Sequence[str]) -> dict[str, Any]:
    return {"any_of": list(answers)}


def _choice(answers: Sequence[str], choices: Sequence[str]) -> dict[str, Any]:
    if not choices:
        raise ValueError("needs the choices beside the answer")
    return {"choices": list(choices), "answer": _one(answers)}


def _numeric(answers: Sequence[str], _: Sequence[str]) -> dict[str, Any]:
    answer = _one(answers)
    try:
        number = float(answer.strip().replace(",", ""))
    except ValueError:
        raise ValueError(f"needs a number as answer, got {answer!r}") from None
    return {"value": int(number) if number.is_integer() else number}


def _reference(answers: Sequence[str], _: Sequence[str]) -> dict[str, Any]:
    return {"reference": _one(answers)}


def _regex(answers: Sequence[str], _: Sequence[str]) -> dict[str, Any]:
    return {"pattern": _one(answers)}


_TARGETS: dict[str, Callable[[Sequence[str], Sequence[str]], dict[str, Any]]] = {
    "exact": _exact,
    "contains_any": _contains_any,
    "choice": _choice,
    "multiple_choice": _choice,
    "numeric": _numeric,
    "regex": _regex,
    "rouge_l": _reference,
    "chrf": _reference,
}


def require_scorer(scorer: str) -> None:
    """Raises UserError when no answer can be made a target of such a scorer."""
    known = sorted(_TARGETS.keys() & SCORERS.keys())
    if scorer not in known:
        raise UserError(f"--scorer {scorer}: cannot be told from an answer alone; {nearest(scorer, known)}")


def answer_target(scorer: str, answers: Sequence[str], choices: Sequence[str] = ()) -> dict[str, Any]:
    """The target under which any of the answers is right.

    Raises:
        ValueError: the scorer has no use for such answers; the text goes on from "the scorer".
    """
    return _TARGETS[scorer](answers, choices)
