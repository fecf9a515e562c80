"""What a long run has finished so far, so that one which was stopped goes on from there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from pipeline import store


class Journal:
    """Lines of JSON: first the key of the run, then one row for each finished step, written through to the disk.

    A file of another key is begun anew. So is what follows a line that was not written to its end.
    """

    def __init__(self, path: Path, key: str) -> None:
        self._key = key
        self.done: list[dict[str, Any]] = self._finished(path)
        """Rows of steps that an earlier run of this key finished, in their order."""
        path.parent.mkdir(parents=True, exist_ok=True)
        store.write_jsonl(path, [{"key": key}, *self.done])
        self._stream = path.open("a", encoding="utf-8", newline="\n")

    def add(self, row: dict[str, Any]) -> None:
        """Keep the row of a finished step; on return it outlives this process and the machine."""
        self._stream.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def _finished(self, path: Path) -> list[dict[str, Any]]:
        if not path.exists():
            return []
        rows: list[dict[str, Any]] = []
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]:
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return rows[1:] if rows and rows[0] == {"key": self._key} else []
