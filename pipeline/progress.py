"""How far long work is, told by a worker process to the one that started it, as marked lines on its output."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

MARK = "@quantgate-progress "


@dataclass(frozen=True)
class Progress:
    done: int
    total: int
    what: str


def report(done: int, total: int, what: str) -> None:
    """Say that `done` of `total` steps of the work named `what` are finished."""
    # One write, on a line of its own: libraries draw their own bars on the same output, from other threads too.
    sys.stdout.write(f"\n{MARK}{json.dumps({'done': done, 'total': total, 'what': what})}\n")
    sys.stdout.flush()


def parse(line: str) -> Progress | None:
    """The progress told by an output line; None for any other line, and for one that another writer cut into."""
    if not line.startswith(MARK):
        return None
    try:
        return Progress(**json.loads(line.removeprefix(MARK)))
    except (json.JSONDecodeError, TypeError):
        return None
