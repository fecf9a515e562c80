"""Read the records of every variant in params.yaml, and refuse to merge what was not measured alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pipeline import records, store
from pipeline.errors import UserError
from pipeline.metrics.evidence import ScoredSet, VariantEvidence
from pipeline.params import Params
from pipeline.records import (
    EngineInfo,
    Environment,
    QualityRecord,
    QuantizeRecord,
    SpeedRecord,
    Status,
)

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
            not belong in one table: other artifact, prompts, items, engine, machine.
    """
    problems: list[str] = []
    environment = _tried(partial(records.load, store.ENVIRONMENT, Environment), problems)
    read = [_tried(partial(_read_variant, name, params), problems) for name in params.variants]
    if problems or environment is None:
        raise UserError(problems)
    variants = [evidence for evidence in read if evidence is not None]
    conflicts = list(_conflicts(variants))
    if conflicts:
        raise UserError(f"the records cannot be merged: {conflict}" for conflict in conflicts)
    baseline = next(evidence for evidence in variants if evidence.variant == params.baseline)
    return Gathered(
        variants=tuple(e if e.variant == params.baseline else replace(e, baseline=baseline) for e in variants),
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
    speed = _tried(partial(records.load, store.speed_record(name), SpeedRecord), problems)
    scored = [
        _tried(partial(_read_scored, name, eval_set, settings.weight), problems)
        for eval_set, settings in params.eval_sets.items()
    ]
    if problems or quantize is None or speed is None:
        raise UserError(problems)
    return VariantEvidence(
        variant=name,
        quantize=quantize,
        speed=speed,
        quality=tuple(part for part in scored if part is not None),
        headline=params.decision.workload,
        seed=params.seed,
    )


def _read_scored(variant: str, eval_set: str, weight: float) -> ScoredSet:
    record = records.load(store.quality_record(variant, eval_set), QualityRecord)
    path = store.quality_items(variant, eval_set)
    if record.status is not Status.OK:
        return ScoredSet(record, (), weight)
    items = tuple(records.load_items(path))
    if not items or record.overall is None or record.overall.n != len(items):
        raise UserError(
            f"{path}: holds {len(items)} items, but the record beside it was made from "
            f"{record.overall.n if record.overall else 'none'}. Run `dvc repro` to make both anew."
        )
    return ScoredSet(record, items, weight)


# --- what must be alike ----------------------------------------------------------------------------------------


def _conflicts(variants: list[VariantEvidence]) -> Iterator[str]:
    for evidence in variants:
        yield from _differing(
            f"artifact of {evidence.variant}",
            (
                (stage, record.artifact_sha256)
                for stage, record in _artifact_records(evidence)
                if record.status is Status.OK
            ),
        )
    made = [e for e in variants if e.quantize.status is Status.OK]
    yield from _differing("base model", ((e.variant, e.quantize.base) for e in made))
    yield from _differing("tokenizer", ((e.variant, e.quantize.tokenizer_sha256) for e in made))
    yield from _differing("chat template", ((e.variant, e.quantize.chat_template_sha256) for e in made))
    yield from _eval_set_conflicts(variants)
    yield from _workload_conflicts(variants)
    timed = [e for e in variants if e.speed.status is Status.OK]
    now = [(store.ENVIRONMENT.as_posix(), store.sha256_file(store.ENVIRONMENT))] if timed else []
    yield from _differing("machine", [*now, *((e.variant, e.speed.environment_sha256) for e in timed)])
    yield from _engine_conflicts(variants)


def _artifact_records(evidence: VariantEvidence) -> Iterator[tuple[str, QuantizeRecord | SpeedRecord | QualityRecord]]:
    yield "quantize", evidence.quantize
    yield "benchmark", evidence.speed
    for scored in evidence.quality:
        yield f"evaluate {scored.name}", scored.record


def _eval_set_conflicts(variants: list[VariantEvidence]) -> Iterator[str]:
    scored = [(e.variant, s) for e in variants for s in e.quality if s.record.status is Status.OK]
    for name in dict.fromkeys(s.name for _, s in scored):
        ours = [(variant, s) for variant, s in scored if s.name == name]
        yield from _differing(f"eval set {name}", ((variant, s.record.eval_set_sha256) for variant, s in ours))
        yield from _differing(
            f"prompts of eval set {name}",
            (
                (variant, store.sha256_json({item.item_id: item.prompt_sha256 for item in s.items}))
                for variant, s in ours
            ),
        )
        yield from _differing(f"decoding on eval set {name}", ((variant, s.record.decoding) for variant, s in ours))


def _workload_conflicts(variants: list[VariantEvidence]) -> Iterator[str]:
    timed = [(e.variant, w) for e in variants if e.speed.status is Status.OK for w in e.speed.workloads]
    for name in dict.fromkeys(w.workload for _, w in timed):
        ours = [(variant, w) for variant, w in timed if w.workload == name]
        yield from _differing(f"prompt of workload {name}", ((variant, w.prompt_sha256) for variant, w in ours))
        yield from _differing(f"output length of workload {name}", ((variant, w.output_tokens) for variant, w in ours))


def engines(evidence: VariantEvidence) -> Iterator[tuple[str, EngineInfo]]:
    """The engine of each stage that ran one."""
    if evidence.speed.status is Status.OK and evidence.speed.engine:
        yield "benchmark", evidence.speed.engine
    for scored in evidence.quality:
        if scored.record.status is Status.OK and scored.record.engine:
            yield f"evaluate {scored.name}", scored.record.engine


def _engine_conflicts(variants: list[VariantEvidence]) -> Iterator[str]:
    used = [(f"{e.variant} {stage}", engine) for e in variants for stage, engine in engines(e)]
    for setting in ("device", "device_name", "compute_dtype", "threads"):
        yield from _differing(f"engine {setting}", ((who, getattr(engine, setting)) for who, engine in used))
    # A variant may need a package of its own; one that several variants use must have one version.
    for package in dict.fromkeys(package for _, engine in used for package in engine.packages):
        yield from _differing(
            f"version of {package}",
            ((who, engine.packages[package]) for who, engine in used if package in engine.packages),
        )


def _differing(what: str, found: Iterable[tuple[str, object]]) -> Iterator[str]:
    """One problem that names who has which value, when there is more than one value."""
    holders: dict[str, list[str]] = {}
    for who, value in found:
        holders.setdefault(_short(value), []).append(who)
    if len(holders) > 1:
        parts = "; ".join(f"{value} ({', '.join(who)})" for value, who in holders.items())
        yield f"{what} differs: {parts}. Run `dvc repro` so that all are made alike."


def _short(value: object) -> str:
    return str(value)[:200]


# --- strays ----------------------------------------------------------------------------------------------------


def _strays(params: Params) -> Iterator[str]:
    expected = {store.quantize_record(name) for name in params.variants}
    expected |= {store.speed_record(name) for name in params.variants}
    for name in params.variants:
        for eval_set in params.eval_sets:
            expected |= {store.quality_record(name, eval_set), store.quality_items(name, eval_set)}
    folders = (store.QUANTIZE_RECORDS, store.SPEED_RECORDS, store.QUALITY_RECORDS)
    found = (path for folder in folders for path in _record_files(folder))
    yield from sorted(path.as_posix() for path in found if path not in expected)


def _record_files(folder: Path) -> Iterator[Path]:
    """Files with a record's name; .gitignore and half-written temporary files are not records."""
    return (path for path in folder.rglob("[!.]*") if path.suffix in (".json", ".jsonl"))
