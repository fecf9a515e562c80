"""YAML and JSONL files whose values know the line they stand in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.errors import UserError
from pipeline.yaml_files import UniqueKeyLoader, read_nodes

Route = tuple[str | int, ...]
"""Keys and indices that lead to a value."""


@dataclass(frozen=True)
class Tagged:
    """A value with a tag of its own, such as `!function utils.f`."""

    tag: str
    text: str


@dataclass(frozen=True)
class Located:
    path: Path
    value: Any
    lines: dict[Route, int]

    def place(self, *route: str | int) -> str:
        """File and line of a value, or of the nearest one around it."""
        for length in range(len(route), -1, -1):
            if route[:length] in self.lines:
                return f"{self.path}:{self.lines[route[:length]]}"
        return str(self.path)

    def at(self, *route: str | int) -> Located:
        """A part of the file as a whole of its own."""
        value = self.value
        for key in route:
            value = value[key]
        length = len(route)
        inner = {key[length:]: line for key, line in self.lines.items() if key[:length] == route}
        return Located(self.path, value, inner)

    def tagged(self) -> Iterator[tuple[Route, Tagged]]:
        """Values with a tag of their own, wherever they stand."""
        waiting: list[tuple[Route, Any]] = [((), self.value)]
        while waiting:
            route, value = waiting.pop(0)
            if isinstance(value, Tagged):
                yield route, value
            elif isinstance(value, dict):
                waiting += [((*route, key), inner) for key, inner in value.items()]
            elif isinstance(value, list):
                waiting += [((*route, index), inner) for index, inner in enumerate(value)]


class _Loader(UniqueKeyLoader):
    """Keeps foreign tags instead of refusing them, so that the importer can tell what they stood for."""


def _tagged(loader: _Loader, tag: str, node: yaml.Node) -> Tagged:
    return Tagged(f"!{tag}", node.value if isinstance(node, yaml.ScalarNode) else "…")


_Loader.add_multi_constructor("!", _tagged)


def read_yaml(path: Path) -> Located:
    """Raises UserError when the file cannot be read or is not YAML."""
    value, node = read_nodes(path, _Loader)
    return Located(path, value, {} if node is None else dict(_lines(node, (), set())))


def read_jsonl(path: Path) -> list[Located]:
    """One value per line that is not empty.

    Raises:
        UserError: the file cannot be read, or with every line that is not a JSON object.
    """
    found, problems = [], []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            problems.append(f"{path}:{number}: not JSON ({error})")
            continue
        if isinstance(value, dict):
            found.append(Located(path, value, {(): number}))
        else:
            problems.append(f"{path}:{number}: expected a JSON object, got {type(value).__name__}")
    if problems:
        raise UserError(problems)
    return found


def read_text(path: Path) -> str:
    """Raises UserError when the file cannot be read as UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from None


def _lines(node: yaml.Node, route: Route, open_nodes: set[int]) -> Iterator[tuple[Route, int]]:
    yield route, node.start_mark.line + 1
    if id(node) in open_nodes:  # An alias inside of what it names.
        return
    inside = open_nodes | {id(node)}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield from _lines(value, (*route, key.value), inside)
                # A key stands where its author looks for it; its value may begin a line later.
                yield (*route, key.value), key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, (*route, index), inside)
