"""JSONL files that people write: every bad line is reported with its number."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.errors import UserError


def problems(path: Path, check: Callable[[dict[str, Any]], list[str]], id_key: str = "id") -> list[str]:
    """Every mistake in a JSONL file: bad JSON, not an object, a repeated or missing id, and what `check` finds."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return [f"{path}: missing"]
    except UnicodeDecodeError as error:
        return [f"{path}: not UTF-8 ({error.reason} at byte {error.start})"]
    found: list[str] = []
    first_line: dict[str, int] = {}
    rows = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        rows += 1
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            found.append(f"{place}: not JSON ({error.msg} at column {error.colno})")
            continue
        if not isinstance(row, dict):
            found.append(f"{place}: expected a JSON object, got {type(row).__name__}")
            continue
        found.extend(f"{place}: {problem}" for problem in check(row))
        name = row.get(id_key)
        if isinstance(name, str) and name in first_line:
            found.append(f"{place}: {id_key} {name!r} was already used in line {first_line[name]}")
        elif isinstance(name, str):
            first_line[name] = number
    if not rows:
        found.append(f"{path}: empty; it needs at least one line")
    return found


def read(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSONL file that `problems` has passed, read by the `datasets` library.

    Columns that a row lacks come back as absent, not as null.
    """
    import tempfile

    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory(prefix="quantgate-datasets-") as cache:
        # Values of one key may differ in type between rows (a target is an object or a list), which Arrow columns
        # cannot hold: each row travels as text and is parsed here.
        rows = datasets.load_dataset("text", data_files=str(path), split="train", cache_dir=cache)
        texts = list(rows["text"])
    return [json.loads(text) for text in texts if text.strip()]


def require(path: Path, found: list[str]) -> None:
    if found:
        raise UserError(found)
