"""A model in a process of its own that answers requests, one at a time, and tells how long each took.

Only the standard library: the child may run in another Python environment than the parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO


class Answer(NamedTuple):
    seconds: float
    result: Any


@dataclass(frozen=True)
class Side:
    """The parent's end. The child's other output is shown only when it fails."""

    name: str
    child: subprocess.Popen[str]
    log: IO[str]

    def ask(self, what: str, **given: Any) -> Answer:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        try:
            print(json.dumps({"what": what, **given}), file=self.child.stdin, flush=True)
            return Answer(**json.loads(self.child.stdout.readline()))
        except (BrokenPipeError, json.JSONDecodeError):
            code = self.child.wait()
            self.log.seek(0)
            sys.exit(f"{self.log.read()[-3000:]}\n{self.name} ended with {code} when asked for {what}")


@contextlib.contextmanager
def start(python: str, script: str, *arguments: str, threads: int) -> Iterator[Side]:
    """Run a script of this folder, the number of threads as its last argument, until the block ends."""
    settings = {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log,
        subprocess.Popen(
            [python, str(Path(__file__).with_name(script)), *arguments, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | settings,
        ) as child,
    ):
        try:
            yield Side(script, child, log)
        finally:
            child.kill()


def replies() -> TextIO:
    """Standard output for replies alone: whatever else this process prints goes to standard error from now on."""
    sys.stdout.flush()
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


def serve(stream: TextIO, actions: Mapping[str, Callable[..., Any]]) -> None:
    """Answer the requests of the parent, a JSON object a line, until there are no more."""
    for line in sys.stdin:
        asked = json.loads(line)
        action = actions[asked.pop("what")]
        start = time.perf_counter()
        result = action(**asked)
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "result": result}), file=stream, flush=True)
