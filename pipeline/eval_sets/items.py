"""`items.jsonl` and `documents/`: what is asked, and what a right answer is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline import jsonl
from pipeline.errors import nearest
from pipeline.eval_sets import template as templates
from pipeline.eval_sets.card import (
    DOCUMENT,
    Card,
    Fields,
    Format,
    Text,
    card_problems,
    fields_problems,
    folder,
    read_card,
)
from pipeline.scorers import SCORERS
from pipeline.yaml_files import section_problems

ASKED = ("prompt", "messages", "fields")
"""The ways an item can ask; each item uses one."""


class Turn(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    role: Literal["system", "user", "assistant"]
    content: Text


class Item(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: Text
    category: Text
    prompt: Text | None = None
    messages: list[Turn] | None = Field(default=None, min_length=1)
    fields: Fields | None = None
    document: Text | None = None
    """Name of a file in documents/, without `.txt`."""
    group: Text | None = None
    """The conversation or source that it shares with other items."""
    target: Any = None
    critical: bool = False
    """A wrong answer would do real harm."""

    @property
    def cluster(self) -> str | None:
        return self.document or self.group


def items_path(name: str) -> Path:
    return folder(name) / "items.jsonl"


def problems(name: str) -> list[str]:
    """Every mistake in an eval set, with file and line; of items under a faulty card what can be told without it."""
    faulty_card = card_problems(name)
    if not folder(name).is_dir():
        return faulty_card
    check = (
        _own_problems if faulty_card else partial(row_problems, card=read_card(name), documents=document_paths(name))
    )
    return [*faulty_card, *jsonl.problems(items_path(name), check), *_unreadable(name)]


def read_items(name: str) -> list[Item]:
    """Items in file order, each target merged over its category's.

    Raises:
        UserError: with every mistake in the set.
    """
    jsonl.require(folder(name), problems(name))
    card = read_card(name)
    rows = jsonl.read(items_path(name))
    return [Item.model_validate(row | {"target": merged_target(row, card)}) for row in rows]


def read_documents(name: str) -> dict[str, str]:
    """Texts of the documents by name, without white space around them."""
    return {key: path.read_text(encoding="utf-8-sig").strip() for key, path in document_paths(name).items()}


def document_paths(name: str) -> dict[str, Path]:
    return {path.stem: path for path in sorted((folder(name) / "documents").glob("*.txt"))}


def merged_target(row: dict[str, Any], card: Card) -> Any:
    """The row's target over the default of its category."""
    default = card.categories[row["category"]].target
    target = row.get("target")
    if isinstance(target, dict):
        return default | target
    return default if target is None and default else target


def row_problems(row: dict[str, Any], card: Card, documents: dict[str, Path]) -> list[str]:
    """What is wrong with one line of items.jsonl."""
    return [
        *_own_problems(row),
        *_question_problems(row, card),
        *_document_problems(row, card, documents),
        *_target_problems(row, card),
    ]


def _own_problems(row: dict[str, Any]) -> list[str]:
    """What is wrong with one line whatever the card says."""
    return [*section_problems(Item, row), *_character_problems(row), *_asking_problems(row)]


def _character_problems(row: dict[str, Any]) -> Iterator[str]:
    text = json.dumps(row, ensure_ascii=False)
    if any("\ud800" <= character <= "\udfff" for character in text):
        yield "holds half of a character (a lone surrogate such as \\ud800); write the whole one"
    if "\\u0000" in text:
        yield "holds a NUL character; remove it"


def _asking_problems(row: dict[str, Any]) -> Iterator[str]:
    used = [name for name in ASKED if row.get(name) is not None]
    if len(used) != 1:
        have = " and ".join(map(repr, used)) or "none"
        yield f"needs exactly one of 'prompt', 'messages' and 'fields', has {have}"


def _question_problems(row: dict[str, Any], card: Card) -> Iterator[str]:
    if isinstance(row.get("fields"), dict):
        yield from fields_problems(card, row["fields"], {DOCUMENT} if row.get("document") else set())
    if isinstance(row.get("messages"), list):
        yield from _message_problems(row["messages"], card)


def _message_problems(messages: list[Any], card: Card) -> Iterator[str]:
    if card.format is Format.TEXT:
        yield "messages: card.yaml says format: text, which has no turns; give 'prompt' instead"
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    if roles and roles[-1] != "user":
        yield "messages: the last one must be from the user"
    if "system" in roles[1:]:
        yield "messages: only the first one may be from the system"
    if roles[:1] == ["system"] and card.system is not None:
        yield "messages: has a system message, and card.yaml has one for all items; keep one of them"


def _document_problems(row: dict[str, Any], card: Card, documents: dict[str, Path]) -> Iterator[str]:
    document = row.get("document")
    if not isinstance(document, str):
        return
    if document not in documents:
        yield f"document {document!r}: no file documents/{document}.txt; {nearest(document, list(documents))}"
    shown = row.get("fields") is not None and DOCUMENT in templates.names(card.template or "")
    if not shown:
        yield (
            "'document' is not shown to the model: that takes 'fields' and a template with {document} in card.yaml; "
            "an item that only shares a source with others names it as 'group'"
        )
    if row.get("group") is not None:
        yield "'document' and 'group' both say which items belong together; keep one"


def _target_problems(row: dict[str, Any], card: Card) -> Iterator[str]:
    category = row.get("category")
    if not isinstance(category, str) or not category.strip():
        return
    if category not in card.categories:
        yield f"category {category!r} is not in card.yaml; {nearest(category, list(card.categories))}"
        return
    target = merged_target(row, card)
    if target is None:
        yield "lacks 'target'"
    else:
        yield from SCORERS[card.categories[category].scorer].target_problems(target)


def _unreadable(name: str) -> Iterator[str]:
    for path in document_paths(name).values():
        try:
            if not path.read_text(encoding="utf-8-sig").strip():
                yield f"{path}: empty"
        except OSError as error:
            yield f"{path}: cannot be read ({error.strerror})"
        except UnicodeDecodeError as error:
            yield f"{path}: not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
