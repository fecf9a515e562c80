"""YAML files that people write: read strictly, every mistake reported with its place and the nearest known key."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from pipeline.errors import UserError, nearest


def read_yaml(path: Path) -> Any:
    """Raises UserError when the file is missing or is not YAML; a repeated key is a mistake."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _UniqueKeyLoader)
    except FileNotFoundError:
        raise UserError(f"{path}: not found. Run this in the folder that holds it.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None


def section_problems(model: type[BaseModel], raw: Any, place: str = "") -> Iterator[str]:
    """Every mistake in one section, each with its place and, for an unknown key, the nearest known one."""
    try:
        model.model_validate(raw)
    except ValidationError as error:
        for item in error.errors():
            loc = tuple(part for part in item["loc"] if part != "[key]")
            full = ".".join(filter(None, [place, *map(str, loc)])) or "the whole file"
            if item["type"] == "extra_forbidden":
                owner = _model_at(model, loc[:-1])
                yield f"{full}: unknown key; {nearest(str(loc[-1]), list(owner.model_fields) if owner else [])}"
            elif item["type"] == "missing":
                yield f"{full}: missing"
            else:
                yield f"{full}: {item['msg'][0].lower()}{item['msg'][1:]}, got {item['input']!r}"


def _model_at(model: type[BaseModel], loc: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The section model at a place in the file, through dict[str, Section] fields."""
    current: Any = model
    for part in loc:
        if get_origin(current) is dict:
            current = get_args(current)[1]
        elif isinstance(current, type) and issubclass(current, BaseModel) and part in current.model_fields:
            current = current.model_fields[str(part)].annotation
        else:
            return None
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


class _UniqueKeyLoader(yaml.SafeLoader):
    """A YAML loader for which a repeated key is an error, not a silent overwrite."""

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
