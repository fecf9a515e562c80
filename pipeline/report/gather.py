"""Read the records of every variant in params.yaml."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pipeline import quality_records, records, store
from pipeline.artifact_records import QuantizeRecord
from pipeline.errors import UserError
from pipeline.metrics.evidence import ScoredSet, Serving, VariantEvidence
from pipeline.metrics.sweep import Objective
from pipeline.params import Params
from pipeline.quality_records import FidelityRecord, QualityRecord
from pipeline.readings import SpeedRecord
from pipeline.records import Environment, Status
from pipeline.report import conflicts
from pipeline.smoke_records import SmokeRecord

Result = TypeVar("Result")


@dataclass(frozen=True)
class Gathered:
    variants: tuple[VariantEvidence, ...]
    """In the order of params.yaml."""
    environment: Environment
    strays: tuple[str, ...]
    """Record files of variants or eval sets that params.yaml does not name; not read."""


def gather(params: Params) -> Gathered:
    """Read all records of all variants.

    Raises:
        UserError: with every file that is missing or cannot be read, or else with every reason why the records do
            not belong in one table; see `pipeline.report.conflicts`.
    """
    problems: list[str] = []
    environment = _tried(partial(records.load, store.ENVIRONMENT, Environment), problems)
    read = [_tried(partial(_read_variant, name, params), problems) for name in params.variants]
    if problems or environment is None:
        raise UserError(problems)
    variants = [evidence for evidence in read if evidence is not None]
    found = list(conflicts.between(variants, params.baseline))
    if found:
        raise UserError(f"the records cannot be merged: {conflict}" for conflict in found)
    limits = tuple(evidence.speed.limits for evidence in variants if evidence.speed.limits)
    variants = [replace(evidence, limits=limits) for evidence in variants]
    baseline = next(evidence for evidence in variants if evidence.variant == params.baseline)
    return Gathered(
        variants=tuple(e if e is baseline else replace(e, baseline=baseline) for e in variants),
        environment=environment,
        strays=tuple(_strays(params)),
    )


def _tried(read: Callable[[], Result], problems: list[str]) -> Result | None:
    try:
        return read()
    except UserError as error:
        problems.extend(error.problems)
        return None


def _read_variant(name: str, params: Params) -> VariantEvidence:
    problems: list[str] = []
    quantize = _tried(partial(records.load, store.quantize_record(name), QuantizeRecord), problems)
    smoke = _tried(partial(records.load, store.smoke_record(name), SmokeRecord), problems)
    speed = _tried(partial(records.load, store.speed_record(name), SpeedRecord), problems)
    scored = [
        _tried(partial(_read_scored, name, eval_set, settings.weight), problems)
        for eval_set, settings in params.eval_sets.items()
    ]
    fidelity = _tried(partial(records.load, store.fidelity_record(name), FidelityRecord), problems)
    if problems or quantize is None or smoke is None or speed is None or fidelity is None:
        raise UserError(problems)
    return VariantEvidence(
        variant=name,
        quantize=quantize,
        smoke=smoke,
        speed=speed,
        quality=tuple(part for part in scored if part is not None),
        fidelity=fidelity,
        headline=params.decision.workload,
        concurrency={workload: settings.concurrency for workload, settings in params.benchmark.workloads.items()},
        sweep_workload=params.benchmark.sweep.workload if params.benchmark.sweep.concurrency else None,
        context_length=speed.context_length,
        serving=_serving(params),
        seed=params.seed,
    )


def _serving(params: Params) -> Serving:
    serving = params.serving
    return Serving(
        objective=Objective(ttft_s=serving.objective.ttft_s, tpot_s=serving.objective.tpot_s),
        memory_gib=serving.memory_gib,
        price_per_hour=serving.price_per_hour,
        max_spread=serving.max_spread,
    )


def _read_scored(variant: str, eval_set: str, weight: float) -> ScoredSet:
    record = records.load(store.quality_record(variant, eval_set), QualityRecord)
    path = store.quality_items(variant, eval_set)
    if record.status is not Status.OK:
        return ScoredSet(record, (), weight)
    items = tuple(quality_records.load_items(path))
    if not items or record.overall is None or record.overall.n != len(items):
        raise UserError(
            f"{path}: holds {len(items)} items, but the record beside it was made from "
            f"{record.overall.n if record.overall else 'none'}. Run `dvc repro` to make both anew."
        )
    return ScoredSet(record, items, weight)


# --- strays ----------------------------------------------------------------------------------------------------


def _strays(params: Params) -> Iterator[str]:
    expected = {store.quantize_record(name) for name in params.variants}
    expected |= {store.smoke_record(name) for name in params.variants}
    expected |= {store.speed_record(name) for name in params.variants}
    expected |= {store.fidelity_record(name) for name in params.variants}
    for name in params.variants:
        for eval_set in params.eval_sets:
            expected |= {store.quality_record(name, eval_set), store.quality_items(name, eval_set)}
    folders = (
        store.QUANTIZE_RECORDS,
        store.SMOKE_RECORDS,
        store.SPEED_RECORDS,
        store.QUALITY_RECORDS,
        store.FIDELITY_RECORDS,
    )
    found = (path for folder in folders for path in _record_files(folder))
    yield from sorted(path.as_posix() for path in found if path not in expected)


def _record_files(folder: Path) -> Iterator[Path]:
    """Files with a record's name; .gitignore and half-written temporary files are not records."""
    return (path for path in folder.rglob("[!.]*") if path.suffix in (".json", ".jsonl"))
