"""What installed libraries say of themselves, read from their source: importing them would cost seconds."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path


@cache
def table_keys(package: str, file: str, table: str) -> frozenset[str]:
    """Text keys of a dict named `table` in a file of an installed package; keys added to it later in the file count.

    Understands `T = {"key": …}`, `T = OrderedDict([("key", …), …])` and `T["key"] = …` at any depth. Empty where the
    package, the file or the table is not there, so that nothing can be told.
    """
    found: set[str] = set()
    for node in _nodes(package, file):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id == table:
                    found |= _keys(node.value)
                elif (
                    isinstance(target, ast.Subscript)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == table
                    and isinstance(target.slice, ast.Constant)
                ):
                    found |= {target.slice.value} if isinstance(target.slice.value, str) else set()
    return frozenset(found)


@cache
def constants(package: str, file: str) -> Mapping[str, str | None]:
    """Name → value of what a file of an installed package sets to a text or None; empty where it is not there."""
    found: dict[str, str | None] = {}
    for node in _nodes(package, file):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and (node.value.value is None or isinstance(node.value.value, str)):
                found[target.id] = node.value.value
    return found


def _nodes(package: str, file: str) -> Iterator[ast.AST]:
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or [])[:1] if spec else []:
        path = Path(folder, file)
        if path.is_file():
            yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def _keys(value: ast.expr) -> set[str]:
    """Keys of a dict display, or first members of the pairs in a call's list."""
    if isinstance(value, ast.Dict):
        keys = value.keys
    elif isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.List):
        keys = [pair.elts[0] for pair in value.args[0].elts if isinstance(pair, ast.Tuple) and pair.elts]
    else:
        keys = []
    return {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
