"""Room on the disk for the artifacts that are missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from pipeline import checkpoint, store
from pipeline.metrics.display import memory
from pipeline.params import Params
from pipeline.preflight.memory import parameter_count
from pipeline.preflight.texts import quantizer_settings
from pipeline.quantizers import QuantizerSettings

MARGIN = 1.2


def problems(settings: Params) -> Iterator[str]:
    """Too little room for the artifacts; nothing while the base model's size is out of reach."""
    needed, temporary, count, free = _needed(settings)
    if needed + temporary > free:
        yield (
            f"disk: {count} artifacts and their DVC cache may need {memory(needed + temporary)}, but only "
            f"{memory(free)} are free; make room, remove variants, or move the cache with `dvc cache dir`"
        )


def notes(settings: Params) -> Iterator[str]:
    needed, temporary, count, free = _needed(settings)
    if needed:
        beside = f", and {memory(temporary)} more while one is made" if temporary else ""
        yield (
            f"disk: {count} artifacts take {memory(needed)} at most by estimate ({MARGIN:g} × 2 copies, folder and DVC "
            f"cache, × {_bytes_per_weight(settings)} bytes per weight){beside}; {memory(free)} are free"
        )


def _needed(settings: Params) -> tuple[float, float, int, float]:
    """Bytes for the missing artifacts and as many in DVC's cache; bytes beside them while one is made; the artifacts'
    number; free bytes."""
    missing, parameters = _missing(settings), parameter_count(settings) or 0
    stored = sum(artifact.stored_bytes(parameters) for artifact in missing)
    temporary = max((artifact.temporary_bytes(parameters) for artifact in missing), default=0.0)
    return MARGIN * 2 * stored, temporary, len(missing), shutil.disk_usage(Path()).free


def _bytes_per_weight(settings: Params) -> str:
    """As in "2" or "2 to 4"."""
    found = sorted({artifact.stored_bytes(1) for artifact in _missing(settings)})
    return " to ".join(f"{size:g}" for size in dict.fromkeys((found[0], found[-1])))


def _missing(settings: Params) -> list[QuantizerSettings]:
    """What makes each artifact that is not there, the base's included."""
    variants = [
        quantizer_settings(variant)
        for name, variant in settings.variants.items()
        if not checkpoint.is_complete(store.artifact(name))
    ]
    return variants if checkpoint.is_complete(store.BASE) else [QuantizerSettings(), *variants]
