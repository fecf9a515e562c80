"""Run again what failed. DVC takes a failed variant for done, since its stage wrote its record and ended well."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline import records, store
from pipeline.errors import UserError, nearest
from pipeline.params import Params
from pipeline.readings import SpeedRecord
from pipeline.records import Outcome, QualityRecord, QuantizeRecord, Status


def failed_stages(settings: Params, variants: Sequence[str]) -> list[str]:
    """DVC stage names of the first failed stages of each variant; the stages after them follow by themselves.

    Args:
        settings: the project's params.
        variants: which variants to look at; none means all.

    Raises:
        UserError: a name that is not a variant.
    """
    unknown = [name for name in variants if name not in settings.variants]
    if unknown:
        allowed = list(settings.variants)
        raise UserError(f"no variant {name!r} in params.yaml; {nearest(name, allowed)}" for name in unknown)
    return [stage for name in variants or settings.variants for stage in _failed(name, settings)]


def _failed(variant: str, settings: Params) -> list[str]:
    if _is_failed(store.quantize_record(variant), QuantizeRecord):
        return [f"quantize@{variant}"]
    found = []
    if _is_failed(store.speed_record(variant), SpeedRecord):
        found.append(f"benchmark@{variant}")
    for eval_set in settings.eval_sets:
        if _is_failed(store.quality_record(variant, eval_set), QualityRecord):
            found.append(f"evaluate@{variant}-{eval_set}")
    return found


def _is_failed(path: Path, kind: type[Outcome]) -> bool:
    return path.exists() and records.load(path, kind).status is not Status.OK


def run(stages: Iterable[str]) -> int:
    """Force the given stages, then bring everything up to date. Returns DVC's exit code."""
    dvc = [sys.executable, "-m", "dvc", "repro"]
    forced = subprocess.run([*dvc, "--force", "--single-item", *stages], check=False)
    return forced.returncode or subprocess.run(dvc, check=False).returncode
