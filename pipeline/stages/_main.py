"""What every stage has in common: its command, a user's mistakes without a traceback, and failures that are records."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import TypeVar

from pipeline import processes
from pipeline.errors import UserError, WorkError, nearest
from pipeline.params import Params

Made = TypeVar("Made")


def run(stage: Callable[..., None]) -> None:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    processes.exit_on_signals()
    try:
        _require_arguments(stage)
        stage(*sys.argv[1:])
    except UserError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted; `dvc repro` goes on from here", file=sys.stderr)
        sys.exit(130)


def attempt(work: Callable[[], Made], failed: Callable[[str], Made]) -> Made:
    """The record that `work` makes, or `failed` of the reason: what stands in one variant's way stops no other."""
    try:
        return work()
    except WorkError as error:
        return failed("; ".join(error.problems))


def require_variant(settings: Params, variant: str) -> None:
    """Raises UserError when params.yaml has no such variant."""
    if variant not in settings.variants:
        raise UserError(f"no variant {variant!r} in params.yaml; {nearest(variant, list(settings.variants))}")


def _require_arguments(stage: Callable[..., None]) -> None:
    wanted, given = list(inspect.signature(stage).parameters), sys.argv[1:]
    if len(given) != len(wanted):
        module = inspect.getmodulename(inspect.getfile(stage))
        usage = " ".join([f"python -m pipeline.stages.{module}", *(name.upper() for name in wanted)])
        raise UserError(f"stage {module}: {len(given)} arguments given; it takes {len(wanted)}: {usage}")
