"""Small eval sets and calibration sets in a project folder, for tests of what reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

CARD: dict[str, Any] = {
    "name": "colours",
    "version": "1.0.0",
    "language": "en",
    "licence": "Apache-2.0",
    "provenance": "made by the test",
    "description": "Which colour is it?",
    "categories": {
        "pick": {"scorer": "choice", "max_new_tokens": 4, "description": "one of two"},
        "name": {"scorer": "contains_any", "max_new_tokens": 6, "description": "names a colour"},
        "shape": {"scorer": "regex", "max_new_tokens": 6, "description": "one word"},
        "fields": {"scorer": "json_fields", "max_new_tokens": 12, "description": "as JSON"},
    },
}
ITEMS: list[dict[str, Any]] = [
    {
        "id": "pick-1",
        "category": "pick",
        "prompt": "Red or blue?",
        "target": {"answer": "red", "choices": ["red", "blue"]},
    },
    {"id": "name-1", "category": "name", "prompt": "The car is red. Colour?", "target": {"any_of": ["red"]}},
    {
        "id": "shape-1",
        "category": "shape",
        "prompt": "One word, please.",
        "target": {"pattern": "\\w+"},
        "critical": True,
    },
    {"id": "fields-1", "category": "fields", "prompt": "Red car, 4 doors.", "target": {"colour": "red", "doors": 4}},
]
"""One good item for each scorer."""

CALIBRATION_CARD: dict[str, Any] = {
    "name": "plain",
    "version": "2.1.0",
    "language": "en",
    "licence": "Apache-2.0",
    "provenance": "made by the test",
    "description": "plain texts and chats",
    "kinds": {"document": "plain text", "chat": "conversations"},
}


def write_lines(path: Path, lines: Iterable[Any]) -> None:
    """One line each: texts and bytes as they are, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = [line if isinstance(line, str | bytes) else json.dumps(line) for line in lines]
    path.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in raw))


def write_yaml(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")


def eval_set(folder: Path, lines: Iterable[Any] = ITEMS, **card: Any) -> Path:
    """Write `eval_sets/colours` below `folder`; keywords replace keys of its card. Returns its items file."""
    place = folder / "eval_sets" / "colours"
    write_yaml(place / "card.yaml", CARD | card)
    write_lines(place / "items.jsonl", lines)
    return place / "items.jsonl"


def calibration_set(folder: Path, lines: Iterable[Any], **card: Any) -> Path:
    """Write `calibration/plain` below `folder`; keywords replace keys of its card. Returns its samples file."""
    place = folder / "calibration" / "plain"
    write_yaml(place / "card.yaml", CALIBRATION_CARD | card)
    write_lines(place / "samples.jsonl", lines)
    return place / "samples.jsonl"


def document(number: int, words: int = 60) -> dict[str, Any]:
    """A calibration sample of plain text, different for each number."""
    text = " ".join(f"word{number}x{place}" for place in range(words))
    return {"id": f"doc-{number}", "kind": "document", "text": text}
