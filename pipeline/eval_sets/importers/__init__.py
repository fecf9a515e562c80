"""One file per foreign format; the file name is the format's name, with hyphens for underscores.

Each module defines:

- `OPTIONS`: names of the fields of `Options` that it takes.
- `read(source, options) -> Draft`: the items of a file or data set.

What a format says and an eval set cannot hold is refused with its name and line (`Refusals`). What has no bearing on
questions, answers and scores, such as the models to ask, is left out and told (`Draft.notes`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.errors import UserError
from pipeline.eval_sets.card import Format
from pipeline.eval_sets.importers._located import Located, Tagged

CATEGORY = "items"
"""Of items whose source knows no categories."""


@dataclass(frozen=True)
class Options:
    """What the user adds to a source; None where nothing was said."""

    scorer: str | None = None
    prompt_field: str | None = None
    answer_field: str | None = None
    choices_field: str | None = None
    category_field: str | None = None
    revision: str | None = None
    split: str | None = None
    config: str | None = None


@dataclass(frozen=True)
class DraftItem:
    place: str
    """Where it stands in the source, as file and line."""
    category: str
    scorer: str
    question: Mapping[str, Any]
    """`prompt` or `messages`."""
    target: dict[str, Any]


@dataclass(frozen=True)
class Draft:
    items: list[DraftItem]
    provenance: str
    description: str = ""
    format: Format = Format.CHAT
    system: str | None = None
    few_shot: list[dict[str, str]] = field(default_factory=list)
    max_new_tokens: int | None = None
    """The source's own limit of an answer."""
    notes: list[str] = field(default_factory=list)


@dataclass
class Refusals:
    """Everything in a source that cannot be taken over, gathered so that all of it is told at once."""

    problems: list[str] = field(default_factory=list)

    def add(self, place: str, what: str) -> None:
        self.problems.append(f"{place}: {what}")

    def unknown(self, part: Located, known: Collection[str], whose: str) -> None:
        """Refuse every key of a mapping that is not among the known ones; programs are told elsewhere."""
        for key, value in part.value.items():
            if key not in known and not isinstance(value, Tagged):
                self.add(part.place(key), f"{key!r} of {whose} cannot be imported; remove it, if the items do without")

    def require_none(self) -> None:
        if self.problems:
            raise UserError(self.problems)
