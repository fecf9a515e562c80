"""YAML files that people write: read strictly, every mistake reported with its place and the nearest known key."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from pipeline.errors import UserError, nearest

Place = tuple[str | int, ...]
"""Keys and indices from the top of a section."""
SHOWN = 200
"""Characters of a wrong value that are shown."""


def read_yaml(path: Path) -> Any:
    """Raises UserError when the file is missing or is not YAML; a repeated key is a mistake."""
    return read_nodes(path, UniqueKeyLoader)[0]


def read_nodes(path: Path, loader: type[UniqueKeyLoader]) -> tuple[Any, yaml.Node | None]:
    """The value of a YAML file, and its nodes, which know their lines; raises as `read_yaml`."""
    try:
        reader = loader(path.read_text(encoding="utf-8"))
        node = reader.get_single_node()
        return (None if node is None else reader.construct_document(node)), node
    except FileNotFoundError:
        raise UserError(f"{path}: not found") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from None
    except yaml.YAMLError as error:
        # PyYAML names a place by the file that it was read from, and it was given a text.
        words = str(error).replace(' in "<unicode string>",', " at")
        raise UserError(f"{path}: not valid YAML: {' '.join(words.split())}") from None


def section_problems(model: type[BaseModel], raw: Any, place: str = "") -> Iterator[str]:
    """Every mistake in one section, each with its place and, for an unknown key, the nearest known one."""
    try:
        model.model_validate(raw)
    except ValidationError as error:
        for loc, items in _by_place(model, error).items():
            full = ".".join(filter(None, [place, *map(str, loc)])) or "the whole file"
            yield f"{full}: {_problem(model, loc, items)}"


def _by_place(model: type[BaseModel], error: ValidationError) -> dict[Place, list[Mapping[str, Any]]]:
    """What pydantic found, by place in the file: it tells a value that may be of several kinds once for each kind."""
    found: dict[Place, list[Mapping[str, Any]]] = {}
    for item in error.errors():
        loc = tuple(part for part in item["loc"] if part != "[key]")
        found.setdefault(loc[:-1] if _is_choice(_annotation_at(model, loc[:-1])) else loc, []).append(item)
    return found


def _problem(model: type[BaseModel], loc: Place, items: Sequence[Mapping[str, Any]]) -> str:
    first, *others = items
    if first["type"] == "extra_forbidden":
        owner = _model_at(model, loc[:-1])
        return f"unknown key; {nearest(str(loc[-1]), list(owner.model_fields) if owner else [])}"
    if first["type"] == "missing":
        return "missing"
    kinds = [_words(first), *(_words(item).removeprefix("must be ") for item in others)]
    return f"{' or '.join(kinds)}, got {_shown(first['input'])}"


_WORDS = {
    "model_type": "must be settings by name, as in `name: value`",
    "dict_type": "must be values by name, as in `name: value`",
    "list_type": "must be a list",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "too_short": "must have {min_length} or more entries",
    "string_too_short": "must have {min_length} or more characters",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "value_error": "{error}",
}
"""Pydantic's types of error in the words of the files; those that are not here are told in pydantic's own."""


def _words(error: Mapping[str, Any]) -> str:
    if error["type"] == "string_type" and isinstance(error["input"], bool | int | float | date):
        return "must be a text in quotes"
    words = _WORDS.get(error["type"])
    return words.format(**error.get("ctx", {})) if words else f"{error['msg'][0].lower()}{error['msg'][1:]}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _model_at(model: type[BaseModel], loc: Place) -> type[BaseModel] | None:
    """The section model at a place in the file, through dict[str, Section], list[Section] and Section | None."""
    found = _annotation_at(model, loc)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _annotation_at(model: type[BaseModel], loc: Place) -> Any:
    """What a value at this place must be; None where that cannot be told."""
    current: Any = model
    for part in loc:
        if get_origin(current) in (dict, list):
            current = get_args(current)[-1]
        elif isinstance(current, type) and issubclass(current, BaseModel) and part in current.model_fields:
            current = _without_none(current.model_fields[str(part)].annotation)
        else:
            return None
    return current


def _is_choice(annotation: Any) -> bool:
    """Of plain values, such as `int | Literal["all"]`."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    return bool(kinds) and not any(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds)


def _without_none(annotation: Any) -> Any:
    """`X | None` is X."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 else Union[tuple(kinds)]  # noqa: UP007 - of as many as there are


class UniqueKeyLoader(yaml.SafeLoader):
    """A YAML loader for which a repeated key is an error, not a silent overwrite, and `yes` and `no` are texts.

    YAML 1.1 takes them for true and false, which turns the choices `[yes, no]` and the language `no` into something
    else; YAML 1.2, which DVC reads, does not.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class declares it so
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:bool"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"repeated key {key!r}", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


UniqueKeyLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
