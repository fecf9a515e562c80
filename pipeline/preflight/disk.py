"""Room on the disk for the artifacts that are missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from pipeline import checkpoint, store
from pipeline.metrics.display import memory
from pipeline.params import Params
from pipeline.preflight.memory import parameter_count

MARGIN = 1.2


def problems(settings: Params) -> Iterator[str]:
    """Too little room for the artifacts; nothing while the base model's size is out of reach."""
    needed, count, free = _needed(settings)
    if needed > free:
        yield (
            f"disk: {count} artifacts and their DVC cache may need {memory(needed)}, but only {memory(free)} are free; "
            "make room, remove variants, or move the cache with `dvc cache dir`"
        )


def notes(settings: Params) -> Iterator[str]:
    needed, count, free = _needed(settings)
    if needed:
        yield (
            f"disk: {count} artifacts take {memory(needed)} at most by estimate ({MARGIN:g} × 2 copies, folder and DVC "
            f"cache, × 2 bytes per weight); {memory(free)} are free"
        )


def _needed(settings: Params) -> tuple[float, int, float]:
    """Bytes for the missing artifacts, each in 16 bits at most and again in DVC's cache; their number; free bytes."""
    absent = [name for name in settings.variants if not checkpoint.is_complete(store.artifact(name))]
    missing = [*absent, *([] if checkpoint.is_complete(store.BASE) else ["base"])]
    parameters = parameter_count(settings) or 0
    return MARGIN * 2 * 2 * parameters * len(missing), len(missing), shutil.disk_usage(Path()).free
