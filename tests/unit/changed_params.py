"""The shipped params.yaml with changes, and what is said of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline import params
from pipeline.errors import UserError

ROOT = Path(__file__).parents[2]
SHIPPED: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))

Change = Callable[[dict[str, Any]], Any]


def problems(*changes: Change) -> list[str]:
    """What is said of the shipped params.yaml after the changes, without the leading file name."""
    raw = copy.deepcopy(SHIPPED)
    for change in changes:
        change(raw)
    with pytest.raises(UserError) as caught:
        params.parse(raw)
    assert all(problem.startswith("params.yaml: ") for problem in caught.value.problems)
    return [problem.removeprefix("params.yaml: ") for problem in caught.value.problems]


def put(value: Any, *path: str) -> Change:
    """A change that sets the value at a path."""

    def change(raw: dict[str, Any]) -> None:
        for key in path[:-1]:
            raw = raw[key]
        raw[path[-1]] = value

    return change


def drop(*path: str) -> Change:
    def change(raw: dict[str, Any]) -> None:
        for key in path[:-1]:
            raw = raw[key]
        del raw[path[-1]]

    return change
