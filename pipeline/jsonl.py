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
        lines = _lines(path)
    except FileNotFoundError:
        return [f"{path}: missing"]
    except OSError as error:
        return [f"{path}: cannot be read ({error.strerror})"]
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        return [f"{path}:{number}: not UTF-8 ({error.reason})"]
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
        except (ValueError, RecursionError) as error:
            found.append(f"{place}: JSON that cannot be read ({error})")
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


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8-sig").split("\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSONL file that `problems` has passed, read by the `datasets` library.

    Columns that a row lacks come back as absent, not as null.
    """
    import tempfile

    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory(prefix="quantgate-datasets-") as cache:
        # A target is one kind of object in one row and another in the next, which Arrow columns cannot hold; and the
        # text loader's lines end at U+2028 too. So the file travels as one text and its rows are parsed here.
        files = datasets.load_dataset(
            "text", data_files=str(path), split="train", cache_dir=cache, sample_by="document", encoding="utf-8-sig"
        )
        lines = [line for text in files["text"] for line in text.split("\n")]
    return [json.loads(line) for line in lines if line.strip()]


def require(path: Path, found: list[str]) -> None:
    if found:
        raise UserError(found)
