"""Runs a worker process, shows how far it is, keeps its log, and turns its death into a reason."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from pipeline import processes, progress, store
from pipeline.errors import WorkError
from pipeline.probes import placement

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PLAIN_INTERVAL_S = 15.0


@dataclass(frozen=True)
class Failure:
    reason: str
    wall_s: float


class Display(Protocol):
    def line(self, text: str) -> None: ...


def run(
    name: str,
    job: BaseModel,
    *,
    title: str,
    log: Path,
    timeout_s: float,
    environment: Mapping[str, str],
    cores: placement.Cores = None,
    python: Path = processes.PYTHON,
) -> dict[str, Any] | Failure:
    """Run `pipeline.runs.<name>` on `job` in a fresh process under this interpreter, on these CPU cores only.

    Returns the record it made as JSON, or why there is none: an exception, a signal, or the timeout.

    Raises:
        UserError: there are no such cores.
        WorkError: the worker found a mistake that the user must mend.
    """
    placement.require(cores)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quantgate-job-") as folder:
        job_path, result_path = Path(folder, "job.json"), Path(folder, "result.json")
        store.write_text(job_path, job.model_dump_json())
        command = [str(python), "-m", "pipeline.worker", name, str(job_path), str(result_path)]
        ending = _supervise(command, title, log, timeout_s, processes.environment(python, environment), cores)
        wall_s = time.monotonic() - start
        result: dict[str, Any] = store.read_json(result_path) if result_path.exists() else {"failed": ending}
    if "user_error" in result:
        raise WorkError(result["user_error"])
    if "failed" in result:
        return Failure(f"{result['failed']} (log: {log})", wall_s)
    return dict(result["record"])


def _supervise(
    command: list[str],
    title: str,
    log: Path,
    timeout_s: float,
    environment: dict[str, str],
    cores: placement.Cores,
) -> str:
    """Run to the end or the timeout; returns words on how it ended."""
    log.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    # Long before the worker starts threads of its own, which inherit it.
    placement.pin(cores, process.pid)
    timed_out = threading.Event()

    def watch() -> None:
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out.set()
        _kill(process)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    last: deque[str] = deque(maxlen=100)
    try:
        assert process.stdout is not None
        with log.open("w", encoding="utf-8") as stream, _display(title) as display:
            for line in _clean(process.stdout):
                display.line(line)
                if progress.parse(line) is None:
                    stream.write(line + "\n")
                    last.append(line)
        watcher.join()
    finally:
        _kill(process)
    if timed_out.is_set():
        return f"stopped after the time limit of {timeout_s:g} s"
    return f"{processes.ending(process.returncode)}; its last words: {last_words(last)}"


def last_words(lines: Sequence[str]) -> str:
    """The last line that is no part of a traceback's body: other threads may print theirs, cut off by the end of the
    process, after the error that ended it."""
    body = (" ", "Traceback (", "Exception in thread ")
    told = (line for line in reversed(lines) if not line.startswith(body))
    return next(told, lines[-1] if lines else "no output")


def _kill(process: subprocess.Popen[str]) -> None:
    """End the worker and whatever it started: a child that lives on would hold its output and disturb what follows."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _clean(stream: Iterable[str]) -> Iterable[str]:
    """Lines without colours and cursor movements; each state of a line that overwrites itself is one of its own."""
    for raw in stream:
        line = ANSI.sub("", raw).rstrip()
        if line:
            yield line


def _display(title: str) -> AbstractContextManager[Display]:
    return _BarDisplay(title) if sys.stdout.isatty() else nullcontext(_PlainDisplay(title))


class _PlainDisplay:
    """A line at the start and then at most one every `PLAIN_INTERVAL_S`, for logs."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._start = self._shown = time.monotonic()
        self._step: progress.Progress | None = None
        print(f"{title}: started", flush=True)

    def line(self, text: str) -> None:
        self._step = progress.parse(text) or self._step
        now = time.monotonic()
        if now - self._shown < PLAIN_INTERVAL_S:
            return
        self._shown = now
        words = f"{self._step.what} {self._step.done}/{self._step.total}" if self._step else text[:120]
        print(f"{self._title}: {now - self._start:.0f} s, {words}", flush=True)


class _BarDisplay:
    """A live bar on a terminal; between progress lines it shows the worker's last words."""

    def __init__(self, title: str) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[words]}", markup=True),
        )
        self._title = title
        self._task = self._bar.add_task(title, total=None, words="starting")

    def __enter__(self) -> _BarDisplay:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def line(self, text: str) -> None:
        from rich.markup import escape

        step = progress.parse(text)
        if step is None:
            self._bar.update(self._task, words=escape(text[:60]))
        else:
            self._bar.update(self._task, completed=step.done, total=step.total, words=escape(step.what))
