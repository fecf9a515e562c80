"""Why records do not belong in one table: other artifact, baseline, prompts, items, text, engine or machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from pipeline import store
from pipeline.artifact_records import QuantizeRecord
from pipeline.metrics.evidence import VariantEvidence
from pipeline.quality_records import FidelityRecord, QualityRecord
from pipeline.readings import SpeedRecord
from pipeline.records import EngineInfo, Status
from pipeline.smoke_records import SmokeRecord

LONGEST = 200
"""Characters of one value in a message."""


def between(variants: Sequence[VariantEvidence], baseline: str) -> Iterator[str]:
    """Each conflict between the records of these variants, in words that name who has what."""
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
    compared = [e for e in variants if e.uncompared is None]
    yield from _differing("fidelity text", ((e.variant, e.fidelity.text_sha256) for e in compared))
    yield from _differing("window of the fidelity text", ((e.variant, e.fidelity.window_tokens) for e in compared))
    timed = [e for e in variants if e.speed.status is Status.OK]
    yield from _baseline_conflicts(variants, timed, compared, baseline)
    yield from _workload_conflicts(timed)
    now = [(store.ENVIRONMENT.as_posix(), store.sha256_file(store.ENVIRONMENT))] if timed else []
    yield from _differing("machine", [*now, *((e.variant, e.speed.environment_sha256) for e in timed)])
    yield from _engine_conflicts(variants, timed)


def engines(evidence: VariantEvidence) -> Iterator[tuple[str, EngineInfo]]:
    """The engine of each stage that ran one."""
    if evidence.speed.status is Status.OK and evidence.speed.engine:
        yield "benchmark", evidence.speed.engine
    for scored in evidence.quality:
        if scored.record.status is Status.OK and scored.record.engine:
            yield f"evaluate {scored.name}", scored.record.engine
    if evidence.fidelity.status is Status.OK and evidence.fidelity.engine:
        yield "fidelity", evidence.fidelity.engine


def _artifact_records(
    evidence: VariantEvidence,
) -> Iterator[tuple[str, QuantizeRecord | SmokeRecord | SpeedRecord | QualityRecord | FidelityRecord]]:
    yield "quantize", evidence.quantize
    yield "smoke", evidence.smoke
    yield "benchmark", evidence.speed
    for scored in evidence.quality:
        yield f"evaluate {scored.name}", scored.record
    yield "fidelity", evidence.fidelity


def _baseline_conflicts(
    variants: Sequence[VariantEvidence],
    timed: Sequence[VariantEvidence],
    compared: Sequence[VariantEvidence],
    baseline: str,
) -> Iterator[str]:
    """What was measured against another baseline, or against another artifact of it, is none of this table's."""
    yield from _differing("baseline", [("params.yaml", baseline), *((e.variant, e.speed.baseline) for e in timed)])
    made = [(f"quantize {baseline}", e.quantize.artifact_sha256) for e in variants if e.variant == baseline]
    against = [(f"benchmark {e.variant}", e.speed.baseline_artifact_sha256) for e in timed]
    against += [(f"fidelity {e.variant}", e.fidelity.baseline_artifact_sha256) for e in compared]
    yield from _differing("artifact of the baseline", [*made, *against] if against else [])


def _eval_set_conflicts(variants: Sequence[VariantEvidence]) -> Iterator[str]:
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


def _workload_conflicts(timed: Sequence[VariantEvidence]) -> Iterator[str]:
    """One workload at several concurrencies is several pieces of work, each with its own prompt hash and length."""
    measured = [(e.variant, w) for e in timed for w in e.speed.workloads]
    for name, concurrency in dict.fromkeys((w.workload, w.concurrency) for _, w in measured):
        ours = [(variant, w) for variant, w in measured if (w.workload, w.concurrency) == (name, concurrency)]
        work = f"workload {name} × {concurrency}"
        yield from _differing(f"prompt of {work}", ((variant, w.prompt_sha256) for variant, w in ours))
        yield from _differing(f"output length of {work}", ((variant, w.output_tokens) for variant, w in ours))


def _engine_conflicts(variants: Sequence[VariantEvidence], timed: Sequence[VariantEvidence]) -> Iterator[str]:
    used = [(f"{e.variant} {stage}", engine) for e in variants for stage, engine in engines(e)]
    for setting in ("device", "device_name", "compute_dtype", "threads"):
        yield from _differing(f"engine {setting}", ((who, getattr(engine, setting)) for who, engine in used))
    # Only speed depends on how the process was set up.
    processes = [(e.variant, e.speed.engine.settings) for e in timed if e.speed.engine]
    for setting in dict.fromkeys(name for _, settings in processes for name in settings):
        yield from _differing(f"setting {setting}", ((who, settings.get(setting)) for who, settings in processes))
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
        holders.setdefault("none" if value is None else str(value), []).append(who)
    if len(holders) > 1:
        alike = len(list(takewhile(lambda each: len(set(each)) == 1, zip(*holders, strict=False))))
        parts = "; ".join(f"{_short(value, alike)} ({', '.join(who)})" for value, who in holders.items())
        yield f"{what} differs: {parts}. Run `dvc repro` so that all are made alike."


def _short(value: str, alike: int) -> str:
    """A long value from a little before the place up to which all are alike."""
    if len(value) <= LONGEST:
        return value
    start = max(0, alike - LONGEST // 4)
    part = value[start : start + LONGEST]
    return f"{'…' if start else ''}{part}{'…' if start + LONGEST < len(value) else ''}"
