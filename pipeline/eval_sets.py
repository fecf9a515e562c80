"""Eval sets: `eval_sets/<name>/card.yaml` and `items.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline import jsonl, store
from pipeline.errors import UserError, nearest
from pipeline.quality_records import ItemPrompt
from pipeline.scorers import SCORERS
from pipeline.tokenizer import Tokenizer
from pipeline.yaml_files import read_yaml, section_problems

ITEM_KEYS = {"id", "category", "prompt", "target", "critical"}


class Category(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    scorer: str
    max_new_tokens: int = Field(ge=1)
    description: str


class Card(BaseModel):
    """What an eval set is, where it came from, and how its items are asked and scored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    language: str
    licence: str
    provenance: str
    description: str
    system: str | None = None
    """System message before every prompt."""
    categories: dict[str, Category] = Field(min_length=1)


class Item(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    category: str
    prompt: str
    target: Any
    critical: bool = False
    """A wrong answer would do real harm."""


def folder(name: str) -> Path:
    return store.EVAL_SETS / name


def card_problems(name: str) -> list[str]:
    path = folder(name) / "card.yaml"
    if not folder(name).is_dir():
        have = ", ".join(sorted(path.name for path in store.EVAL_SETS.glob("*") if path.is_dir())) or "none"
        return [f"{folder(name)}: no such eval set (there are: {have})"]
    try:
        raw = read_yaml(path)
    except UserError as error:
        return list(error.problems)
    found = [f"{path}: {problem}" for problem in section_problems(Card, raw)]
    if found:
        return found
    card = Card.model_validate(raw)
    if card.name != name:
        found.append(f"{path}: name is {card.name!r}, but the folder is {name!r}; make them equal")
    for category, settings in card.categories.items():
        if settings.scorer not in SCORERS:
            hint = nearest(settings.scorer, list(SCORERS))
            found.append(f"{path}: categories.{category}.scorer: no scorer {settings.scorer!r}; {hint}")
    return found


def problems(name: str) -> list[str]:
    """Every mistake in an eval set, with file and line."""
    found = card_problems(name)
    if found:
        return found
    card = read_card(name)
    return jsonl.problems(folder(name) / "items.jsonl", lambda row: list(_item_problems(row, card)))


def read_card(name: str) -> Card:
    jsonl.require(folder(name), card_problems(name))
    return Card.model_validate(read_yaml(folder(name) / "card.yaml"))


def read_items(name: str) -> list[Item]:
    """Items in file order.

    Raises:
        UserError: with every mistake in the set.
    """
    jsonl.require(folder(name), problems(name))
    return [Item.model_validate(row) for row in jsonl.read(folder(name) / "items.jsonl")]


def tokenize(name: str, tokenizer: Tokenizer, context_length: int) -> list[ItemPrompt]:
    """Every item as the token ids that all variants get.

    Raises:
        UserError: naming each item whose prompt and answer do not fit into the model's context.
    """
    card = read_card(name)
    prompts = []
    too_long = []
    for item in read_items(name):
        messages = [{"role": "user", "content": item.prompt}]
        if card.system:
            messages.insert(0, {"role": "system", "content": card.system})
        ids = tokenizer.chat(messages, add_generation_prompt=True)
        category = card.categories[item.category]
        if len(ids) + category.max_new_tokens > context_length:
            too_long.append(
                f"{folder(name) / 'items.jsonl'}: item {item.id!r} has {len(ids)} prompt tokens and may answer with "
                f"{category.max_new_tokens}, but the model's context is {context_length}. Shorten it: nothing is cut "
                "silently"
            )
        prompts.append(
            ItemPrompt(
                item_id=item.id,
                category=item.category,
                critical=item.critical,
                scorer=category.scorer,
                target=item.target,
                max_new_tokens=category.max_new_tokens,
                prompt=item.prompt,
                token_ids=ids,
                prompt_sha256=store.sha256_json(ids),
            )
        )
    jsonl.require(folder(name), too_long)
    return prompts


def _item_problems(row: dict[str, Any], card: Card) -> Iterator[str]:
    for key in ("id", "category", "prompt", "target"):
        if key not in row:
            yield f"lacks {key!r}"
    for key in row.keys() - ITEM_KEYS:
        yield f"unknown key {key!r}; {nearest(key, sorted(ITEM_KEYS))}"
    for key in ("id", "category", "prompt"):
        if key in row and not isinstance(row[key], str):
            yield f"{key!r} must be a text, got {type(row[key]).__name__}"
        elif key in row and not row[key].strip():
            yield f"{key!r} is empty"
    if not isinstance(row.get("critical", False), bool):
        yield "'critical' must be true or false"
    category = row.get("category")
    if isinstance(category, str) and category.strip():
        if category not in card.categories:
            yield f"category {category!r} is not in card.yaml; {nearest(category, list(card.categories))}"
        elif "target" in row:
            yield from SCORERS[card.categories[category].scorer].target_problems(row["target"])
