"""The first files of a new eval set: a card with comments and three sample items."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pipeline import store
from pipeline.errors import UserError
from pipeline.eval_sets.card import folder

_CARD = """\
# docs/eval-sets.md explains every key. `quantgate eval-set check {name}` tells what is still missing.
name: {name}
version: 1.0.0                  # raise it when items change: scores of two versions are not comparable
language: en
licence: "TODO: under which licence may others use these items?"
provenance: "TODO: who wrote the items, when and from what; that nothing was copied and no personal data is in them"
description: "TODO: what the items check, and for whom"
system: You work at the help desk. Follow the instructions exactly and keep answers short.
format: chat                    # chat: rendered with the model's chat template; text: for models without one
margin: 0.05                    # the loss of quality that you want to rule out; decides how many items are needed
categories:
  topic:                        # ids of its items: topic-001, topic-002, ...
    scorer: choice              # the first choice named in the output counts
    max_new_tokens: 12          # room for the answer: a third more than the longest right one
    description: Name the topic of a message.
    target: {{choices: [delivery, refund, warranty]}}    # merged under the target of every item
  facts:
    scorer: contains_all        # the share of the entries that stand in the output
    max_new_tokens: 60
    description: Answer a question from a short text, keeping what matters.
"""
_ITEMS = (
    {
        "id": "topic-001",
        "category": "topic",
        "prompt": "My parcel has not moved for three days. Can you look?\n\nWhat is this about: delivery, refund or "
        "warranty?",
        "target": {"answer": "delivery"},
    },
    {
        "id": "topic-002",
        "category": "topic",
        "prompt": "The kettle leaks at the handle. I bought it last spring and still have the guarantee card.\n\nName "
        "the topic: delivery, refund or warranty.",
        "target": {"answer": "warranty"},
    },
    {
        "id": "facts-001",
        "category": "facts",
        "prompt": "Descaler: leave it on for ten minutes, wear gloves, never mix it with bleach.\n\nA customer asks "
        "how to use it. Answer in two sentences and keep the warnings.",
        "target": {"all_of": [["10 minutes", "ten minutes"], ["glove", "gloves"], "bleach"]},
        "critical": True,
    },
)


def create(name: str) -> list[str]:
    """Write the files; returns their paths.

    Raises:
        UserError: this is no project folder, the name will not do, or there is such a folder already.
    """
    require_new(name)
    written = {
        folder(name) / "card.yaml": _CARD.format(name=name),
        folder(name) / "items.jsonl": "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in _ITEMS),
    }
    for path, text in written.items():
        store.write_text(path, text)
    return list(map(str, written))


def require_new(name: str) -> None:
    """Raises UserError when this is no project folder, the name will not do, or there is such a folder already."""
    found = list(_new_problems(name))
    if found:
        raise UserError(found)


def outside_problems() -> Iterator[str]:
    """That this is no project folder."""
    if not store.PARAMS.is_file():
        yield f"{store.PARAMS}: not found. Run this in the folder that holds it, where {store.EVAL_SETS}/ belongs."


def _new_problems(name: str) -> Iterator[str]:
    yield from outside_problems()
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        yield f"{name!r} is no name for an eval set: lower-case letters, digits and hyphens, such as my-set"
    elif folder(name).exists():
        yield f"{folder(name)} is there already; choose another name, or remove it first"
