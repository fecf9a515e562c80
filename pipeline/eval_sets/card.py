"""`card.yaml`: what an eval set is, where it came from, and how its items are asked and scored."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from pipeline import jsonl, store
from pipeline.errors import UserError, nearest
from pipeline.eval_sets import template as templates
from pipeline.scorers import SCORERS
from pipeline.yaml_files import read_yaml, section_problems

DOCUMENT = "document"
"""The template's name for the text of the item's document."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "is empty")
    return text


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise PydanticCustomError("field", "{name} must be a text or a number", {"name": repr(name)})
    return values


Text = Annotated[str, AfterValidator(_not_blank)]
Fields = Annotated[dict[str, Any], AfterValidator(_plain)]
"""What fills the card's template, by name."""


class Format(StrEnum):
    CHAT = "chat"
    """Rendered with the model's chat template."""
    TEXT = "text"
    """Given to the model as it is, for models without a chat template."""


class Category(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    scorer: str
    max_new_tokens: int = Field(ge=1)
    description: str
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Relative to the set's other categories."""
    target: dict[str, Any] = Field(default_factory=dict)
    """Merged under the target of every item."""


class Shot(BaseModel):
    """A worked example: a question and the answer to it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    prompt: Text | None = None
    fields: Fields | None = None
    answer: Text


class Card(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    language: str
    licence: str
    provenance: str
    description: str
    system: Text | None = None
    """System message before every prompt."""
    format: Format = Format.CHAT
    template: Text | None = None
    """Filled with the fields of an item, and with its document."""
    few_shot: list[Shot] = Field(default_factory=list)
    """Worked examples before every item, as earlier turns."""
    margin: float = Field(default=0.05, gt=0, lt=1)
    """Loss of quality that the set is to rule out, for the size check."""
    categories: dict[Text, Category] = Field(min_length=1)


def folder(name: str) -> Path:
    return store.EVAL_SETS / name


def read_card(name: str) -> Card:
    """Raises UserError with every mistake in the card."""
    jsonl.require(folder(name), card_problems(name))
    return Card.model_validate(read_yaml(folder(name) / "card.yaml"))


def card_problems(name: str) -> list[str]:
    """Every mistake in the card, with its place."""
    path = folder(name) / "card.yaml"
    if not folder(name).is_dir():
        have = ", ".join(sorted(path.name for path in store.EVAL_SETS.glob("*") if path.is_dir())) or "none"
        return [f"{folder(name)}: no such eval set (there are: {have})"]
    if not path.exists():
        return [
            f"{path}: missing; write one as docs/eval-sets.md shows, or take that of a set which "
            "`quantgate eval-set new NAME` begins"
        ]
    try:
        raw = read_yaml(path)
    except UserError as error:
        return list(error.problems)
    found = list(section_problems(Card, raw)) or list(_meaning_problems(Card.model_validate(raw), name))
    return [f"{path}: {problem}" for problem in found]


def fields_problems(card: Card, fields: dict[str, Any], given: set[str]) -> Iterator[str]:
    """What of an item's fields does not fit the card's template; `given` are names that something else fills."""
    if card.template is None:
        yield "'fields' fill a template, but card.yaml has none; give 'prompt' instead, or add a template"
        return
    wanted = templates.names(card.template)
    for name in sorted(wanted - fields.keys() - given):
        yield f"fields: lacks {name!r}, which the card's template names"
    for name in sorted(fields.keys() - wanted):
        yield f"fields: {name!r} is not in the card's template; {nearest(name, sorted(wanted))}"


def _meaning_problems(card: Card, name: str) -> Iterator[str]:
    if card.name != name:
        yield f"name is {card.name!r}, but the folder is {name!r}; make them equal"
    for category, settings in card.categories.items():
        if settings.scorer not in SCORERS:
            hint = nearest(settings.scorer, list(SCORERS))
            yield f"categories.{category}.scorer: no scorer {settings.scorer!r}; {hint}"
    wrong = list(templates.problems(card.template or ""))
    yield from (f"template: {problem}" for problem in wrong)
    for place, shot in enumerate([] if wrong else card.few_shot):
        yield from (f"few_shot.{place}: {problem}" for problem in _shot_problems(card, shot))


def _shot_problems(card: Card, shot: Shot) -> Iterator[str]:
    if (shot.prompt is None) == (shot.fields is None):
        yield "needs exactly one of 'prompt' and 'fields'"
    elif shot.fields is not None:
        yield from fields_problems(card, shot.fields, set())
