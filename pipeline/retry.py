"""Run again what failed. DVC takes a failed variant for done, since its stage wrote its record and ended well."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline import processes, records, soundness, store
from pipeline.artifact_records import QuantizeRecord
from pipeline.errors import UserError, nearest
from pipeline.params import Params
from pipeline.quality_records import FidelityRecord, QualityRecord
from pipeline.readings import Alternation, SpeedRecord
from pipeline.records import Outcome, Status
from pipeline.smoke_records import Reference, SmokeRecord


def failed_stages(settings: Params, variants: Sequence[str]) -> list[str]:
    """DVC stage names of the first failed stages of each variant; the stages after them follow by themselves.

    A speed record that is ok counts as failed where its measurement ended early, or had to do without the baseline.

    Args:
        settings: the project's params.
        variants: which variants to look at; none means all.

    Raises:
        UserError: a name that is not a variant.
    """
    found = [stage for name in _named(settings, variants) for stage in _failed(name, settings)]
    return [*(["reference"] if _is_base_unread() else []), *found]


def unmade(settings: Params, variants: Sequence[str]) -> list[Path]:
    """Records of these variants that are not there: their stages have neither failed nor ended well."""
    paths = (path for name in _named(settings, variants) for path in _records(name, settings))
    return [path for path in paths if not path.exists()]


def _named(settings: Params, variants: Sequence[str]) -> list[str]:
    allowed = list(settings.variants)
    unknown = [name for name in variants if name not in allowed]
    if unknown:
        raise UserError(f"no variant {name!r} in params.yaml; {nearest(name, allowed)}" for name in unknown)
    return list(variants) or allowed


def _records(variant: str, settings: Params) -> list[Path]:
    return [
        store.quantize_record(variant),
        store.smoke_record(variant),
        store.speed_record(variant),
        *(store.quality_record(variant, eval_set) for eval_set in settings.eval_sets),
        store.fidelity_record(variant),
    ]


def _failed(variant: str, settings: Params) -> list[str]:
    if _is_failed(store.quantize_record(variant), QuantizeRecord):
        return [f"quantize@{variant}"]
    smoke = _status(store.smoke_record(variant), SmokeRecord)
    if smoke is Status.INVALID:
        # Looking at the same artifact again would find the same.
        return [f"quantize@{variant}", f"smoke@{variant}"]
    if smoke is Status.FAILED:
        return [f"smoke@{variant}"]
    found = []
    if _is_poorly_measured(store.speed_record(variant), settings.baseline):
        found.append(f"benchmark@{variant}")
    for eval_set in settings.eval_sets:
        if _is_failed(store.quality_record(variant, eval_set), QualityRecord):
            found.append(f"evaluate@{variant}-{eval_set}")
    if _is_failed(store.fidelity_record(variant), FidelityRecord):
        found.append(f"fidelity@{variant}")
    return found


def _is_base_unread() -> bool:
    path = store.REFERENCE_RECORD
    return path.exists() and records.load(path, Reference).reason is not None


def _is_failed(path: Path, kind: type[Outcome]) -> bool:
    return _status(path, kind) is not Status.OK


def _status(path: Path, kind: type[Outcome]) -> Status:
    """What never ran has not failed."""
    return records.load(path, kind).status if path.exists() else Status.OK


def _is_poorly_measured(path: Path, baseline: str) -> bool:
    """Also where the record is ok but something failed on the way.

    That is where too many pairs of processes were lost, so that measuring ended early, and where a baseline that there
    is was not measured beside the variant, since it did not load.
    """
    if not path.exists():
        return False
    record = records.load(path, SpeedRecord)
    alone = record.alternation is Alternation.ALONE and soundness.why_not(baseline) is None
    return record.status is not Status.OK or record.stop is None or alone


def run(stages: Iterable[str]) -> int:
    """Force the given stages, then bring everything up to date. Returns DVC's exit code."""
    dvc = [sys.executable, "-m", "dvc", "repro"]
    return processes.run([*dvc, "--force", "--single-item", *stages]) or processes.run(dvc)
