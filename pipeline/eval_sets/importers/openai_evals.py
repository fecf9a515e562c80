"""Samples of OpenAI evals, JSONL: `{"input": [{"role": …, "content": …}, …], "ideal": "…" or ["…", …]}`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.eval_sets.importers import CATEGORY, Draft, DraftItem, Options, Refusals
from pipeline.eval_sets.importers._located import Located, read_jsonl
from pipeline.eval_sets.importers._targets import answer_target, require_scorer

OPTIONS = frozenset({"scorer"})
SCORER = "exact"
"""The samples do not say how they are compared; the registry entry that does is no part of the file."""


def read(source: str, options: Options) -> Draft:
    """Raises UserError with every sample that cannot be taken over."""
    scorer = options.scorer or SCORER
    require_scorer(scorer)
    path, refusals = Path(source), Refusals()
    items = [item for sample in read_jsonl(path) if (item := _item(sample, scorer, refusals))]
    refusals.require_none()
    return Draft(
        items,
        provenance=f"Imported from the OpenAI evals samples {path.name}.",
        notes=[
            f"samples do not say how answers are compared: taken as {scorer}"
            + ("" if options.scorer else "; --scorer contains_any finds the answer within a longer one")
        ],
    )


def _item(sample: Located, scorer: str, refusals: Refusals) -> DraftItem | None:
    refusals.unknown(sample, {"input", "ideal"}, "a sample")
    try:
        question = _question(sample.value.get("input"))
        target = answer_target(scorer, _answers(sample.value.get("ideal")))
    except ValueError as error:
        refusals.add(sample.place(), str(error))
        return None
    return DraftItem(sample.place(), CATEGORY, scorer, question, target)


def _question(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"prompt": value}
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise ValueError("'input' must be a text or a list of messages")
    extra = sorted({key for message in value for key in message.keys() - {"role", "content"}})
    if extra:
        raise ValueError(f"messages in 'input' have {', '.join(map(repr, extra))}, which an eval set cannot hold")
    return {"messages": value}


def _answers(value: Any) -> list[str]:
    answers = [value] if isinstance(value, str) else value
    if not isinstance(answers, list) or not answers or not all(isinstance(answer, str) for answer in answers):
        raise ValueError("'ideal' must be a text or a list of texts")
    return answers
