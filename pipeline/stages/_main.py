"""Runs a stage's function and prints a user's mistakes without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from pipeline.errors import UserError


def run(stage: Callable[..., None]) -> None:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        stage(*sys.argv[1:])
    except UserError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        sys.exit(1)
