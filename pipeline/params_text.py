"""Adding to params.yaml as text: comments, order and layout of what stands there are its owner's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from pipeline.errors import UserError
from pipeline.yaml_files import UniqueKeyLoader


def variant_text(name: str, entry: Mapping[str, Any], indent: int = 2) -> str:
    """A variant as it stands in params.yaml, in lines `indent` spaces deep."""
    plain = yaml.safe_dump({name: dict(entry)}, sort_keys=False, allow_unicode=True, width=1000)
    return "".join(f"{' ' * indent}{line}\n" for line in plain.splitlines())


def with_variant(text: str, after: str, name: str, entry: Mapping[str, Any]) -> str:
    """The text of params.yaml with variant `name` put behind variant `after`; everything else stays as it is.

    Raises:
        UserError: the place cannot be told from the file's layout, for example where variants stand in braces.
    """
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    place, indent = _behind(text, lines, after)
    found = "".join([*lines[:place], variant_text(name, entry, indent), *lines[place:]])
    if not _is_as_wanted(found, _value(text), after, name, entry):
        raise UserError(
            f"params.yaml: variant {name!r} cannot be put behind {after!r} in a file laid out as this one is; "
            "put the proposed text under `variants` by hand"
        )
    return found


def _behind(text: str, lines: list[str], variant: str) -> tuple[int, int]:
    """The line before which the next variant would begin, and how deep variants stand."""
    root: Any = yaml.compose(text, UniqueKeyLoader)
    variants = next(value for key, value in root.value if key.value == "variants")
    key, value = next(pair for pair in variants.value if pair[0].value == variant)
    indent = key.start_mark.column
    # An alias is the node that it stands for, with the place of that one.
    end = (key if value.start_mark.index < key.start_mark.index else value).end_mark
    place = end.line + (1 if end.column > indent else 0)
    # A block ends where the next one begins: comments and blank lines before that belong to the next one, unless
    # they stand as deep as what is in the variant.
    while place > key.start_mark.line + 1 and _is_between(lines[place - 1], indent):
        place -= 1
    return place, indent


def _is_as_wanted(found: str, before: Any, after: str, name: str, entry: Mapping[str, Any]) -> bool:
    try:
        value = _value(found)
    except yaml.YAMLError:
        return False
    names = list(before["variants"])
    before["variants"][name] = dict(entry)
    names.insert(names.index(after) + 1, name)
    return bool(value == before) and list(value["variants"]) == names


def _is_between(line: str, indent: int) -> bool:
    bare = line.strip()
    return not bare or (bare.startswith("#") and len(line) - len(line.lstrip()) <= indent)


def _value(text: str) -> Any:
    return yaml.load(text, UniqueKeyLoader)
