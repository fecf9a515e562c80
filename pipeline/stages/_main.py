"""Runs a stage's function and prints a user's mistakes without a traceback."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from pipeline.errors import UserError


def run(stage: Callable[..., None]) -> None:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    # Turned into exits, so that a cancelled run ends its worker too instead of leaving it to disturb the next one.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    try:
        stage(*sys.argv[1:])
    except UserError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted; `dvc repro` goes on from here", file=sys.stderr)
        sys.exit(130)
