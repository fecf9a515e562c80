"""What every worker process has in common."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

WORKER_ENVIRONMENT: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "PYTHONUNBUFFERED": "1",
    # GPTQModel sets both where they are not set, so that variants would run under another allocator than the baseline.
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}
"""Workers read local files only, tell no one about it, and number and fill GPUs alike."""

PYTHON = Path(sys.executable)
"""The interpreter of the environment that this process runs in."""
PACKAGE = Path(__file__).parent


def environment(python: Path, own: Mapping[str, str]) -> dict[str, str]:
    """All variables of a worker process under this interpreter, `own` among them.

    The interpreter of another environment than this process's finds this package, and nothing else that lies beside
    it, is installed here or stands in the working directory.
    """
    found = {**os.environ, **WORKER_ENVIRONMENT, **own}
    if python != PYTHON:
        found.pop("PYTHONHOME", None)
        found |= {"PYTHONPATH": _package_alone(PACKAGE).name, "PYTHONSAFEPATH": "1"}
    return found


@cache
def _package_alone(package: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder with nothing but a link to this package, which may lie among other packages; gone with this process."""
    folder = tempfile.TemporaryDirectory(prefix="quantgate-package-")
    Path(folder.name, package.name).symlink_to(package)
    return folder


def run(command: Sequence[str]) -> int:
    """Run a command to its end; returns its exit code.

    What ends this process meanwhile is handed on to the command and all that it started: DVC itself would leave its
    stage running.
    """
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait()
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
        process.wait()
        raise


def exit_on_signals() -> None:
    """Turn SIGTERM and SIGHUP into exits, so that what is cancelled ends its worker too: a worker is in a session of
    its own, and would live on and disturb the next one."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))


def ending(code: int) -> str:
    """How a process ended, in words, from its exit code (negative: the signal)."""
    if code >= 0:
        return f"the worker ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = ", most often the system out of memory" if name == "SIGKILL" else ""
    return f"the worker was killed by {name}{hint}"
