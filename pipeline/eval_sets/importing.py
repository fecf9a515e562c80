"""A foreign file or data set as an eval set of ours: `quantgate eval-set import`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import yaml

from pipeline import plugins, store
from pipeline.errors import UserError, nearest
from pipeline.eval_sets.card import Card, folder
from pipeline.eval_sets.importers import Draft, DraftItem, Options
from pipeline.eval_sets.importers.hub import PREFIX
from pipeline.eval_sets.items import row_problems
from pipeline.eval_sets.lint import TO_FILL_IN
from pipeline.eval_sets.scaffold import require_new

PACKAGE = "pipeline.eval_sets.importers"
HUB = "hub"
MAX_NEW_TOKENS = 64
"""Limit of an answer where neither the source nor the user gives one."""


def formats() -> list[str]:
    """What `--format` takes; a hub data set is told by its name instead."""
    return [name.replace("_", "-") for name in plugins.names(PACKAGE) if name != HUB]


def run(
    source: str,
    name: str,
    source_format: str | None,
    options: Options,
    *,
    language: str | None = None,
    licence: str | None = None,
    max_new_tokens: int | None = None,
) -> list[str]:
    """Write `eval_sets/<name>` from the source; returns what the user should know.

    Raises:
        UserError: there is such a set already, this is no project folder, or with everything that cannot be taken
            over. Nothing is written then.
    """
    require_new(name)
    importer = _importer(source, source_format, options)
    draft: Draft = importer.read(source, options)
    categories = _categories(draft, max_new_tokens or draft.max_new_tokens or MAX_NEW_TOKENS)
    card = {
        "name": name,
        "version": "1.0.0",
        "language": language or f"{TO_FILL_IN}: of the items",
        "licence": licence or f"{TO_FILL_IN}: of the source",
        "provenance": draft.provenance,
        "description": draft.description or f"{TO_FILL_IN}: what the items check, and for whom",
        **({"system": draft.system} if draft.system else {}),
        "format": draft.format.value,
        **({"few_shot": draft.few_shot} if draft.few_shot else {}),
        "categories": categories,
    }
    rows = list(_rows(draft))
    _require_good(draft, rows, Card.model_validate(card))
    store.write_text(folder(name) / "card.yaml", _yaml(card))
    store.write_jsonl(folder(name) / "items.jsonl", rows)
    return [*draft.notes, f"{folder(name)}: items {len(rows)}, categories {len(categories)}"]


def _yaml(card: dict[str, Any]) -> str:
    return yaml.dump(card, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as such, for people to edit."""


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text_node)


def _importer(source: str, source_format: str | None, options: Options) -> Any:
    wanted = _format(source, source_format)
    importer = plugins.load(PACKAGE, wanted.replace("-", "_"))
    useless = [
        f"--{key.replace('_', '-')}: means nothing to the format {wanted}"
        for key, value in vars(options).items()
        if value is not None and key not in importer.OPTIONS
    ]
    if useless:
        raise UserError(useless)
    return importer


def _format(source: str, given: str | None) -> str:
    """Raises UserError when `--format` is none for a file, or is given for a hub data set."""
    if source.startswith(PREFIX):
        if given is not None:
            raise UserError(f"--format {given}: a file has a format, but {source} is a hub data set; leave it out")
        return HUB
    allowed = f"allowed: {', '.join(formats())}; a data set on the hub is named {PREFIX}owner/name, without --format"
    if given is None:
        raise UserError(f"--format: needed for a file; {allowed}")
    if given not in formats():
        hint = allowed if given == HUB else nearest(given, formats())
        raise UserError(f"--format {given}: no format of a file; {hint}")
    return given


def _categories(draft: Draft, max_new_tokens: int) -> dict[str, dict[str, Any]]:
    """Raises UserError when items of one category are compared in different ways: a category has one scorer."""
    scorers: dict[str, DraftItem] = {}
    problems = []
    for item in draft.items:
        first = scorers.setdefault(item.category, item)
        if item.scorer != first.scorer:
            problems.append(
                f"{item.place}: category {item.category!r} is scored by {item.scorer} here and by {first.scorer} at "
                f"{first.place}; give one of them another category"
            )
    if not draft.items:
        problems.append("the source holds no items")
    if problems:
        raise UserError(problems)
    return {
        category: {
            "scorer": item.scorer,
            "max_new_tokens": 1 if item.scorer == "multiple_choice" else max_new_tokens,
            "description": f"{TO_FILL_IN}: what these items ask",
        }
        for category, item in scorers.items()
    }


def _rows(draft: Draft) -> Iterator[dict[str, Any]]:
    numbers: dict[str, int] = defaultdict(int)
    digits = max(3, len(str(len(draft.items))))
    for item in draft.items:
        numbers[item.category] += 1
        yield {
            "id": f"{item.category}-{numbers[item.category]:0{digits}}",
            "category": item.category,
            **item.question,
            "target": item.target,
        }


def _require_good(draft: Draft, rows: list[dict[str, Any]], card: Card) -> None:
    found = [
        f"{item.place}: {problem}"
        for item, row in zip(draft.items, rows, strict=True)
        for problem in row_problems(row, card, {})
    ]
    if found:
        raise UserError(found)
