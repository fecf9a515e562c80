"""The card's template: `{name}` stands for a field of the item, `{{` and `}}` for a brace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Any

_NAME = re.compile(r"\w+")


def names(template: str) -> set[str]:
    """Names in a template that `problems` has passed."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def problems(template: str) -> Iterator[str]:
    """Braces that hold no plain name, in the words of one who meant a brace."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        yield f"{str(error)[0].lower()}{str(error)[1:]}; write a brace that is meant as such twice: {{{{ or }}}}"
        return
    for _, name, spec, conversion in parts:
        if name is not None and (spec or conversion or not _NAME.fullmatch(name)):
            shown = name if len(name) <= 40 else f"{name[:40]}…"
            yield f"{{{shown}}} is no field name; write a brace that is meant as such twice: {{{{ or }}}}"


def fill(template: str, values: Mapping[str, Any]) -> str:
    """The template with each name's value; braces within a value stay as they are."""
    return template.format_map(dict(values))
