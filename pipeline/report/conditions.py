"""Under which conditions the numbers were made: in words for people, as hashes for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline import store
from pipeline.metrics import display
from pipeline.metrics.evidence import VariantEvidence
from pipeline.params import Params
from pipeline.records import BaseModelInfo, EngineInfo, Environment, Status
from pipeline.report.gather import Gathered, engines

NONE = "–"


@dataclass(frozen=True)
class Section:
    title: str
    lines: tuple[tuple[str, str], ...]
    """Label and value."""


def sha256(params: Params, gathered: Gathered) -> str:
    """Hash over base model, tokenizer, items, prompts, engine packages and machine; not over results."""
    used = engines_used(gathered)
    timed = [e.speed for e in gathered.variants if e.speed.status is Status.OK]
    return store.sha256_json(
        {
            "base": base(params, gathered).model_dump(mode="json"),
            "tokenizer": _first(e.quantize.tokenizer_sha256 for e in gathered.variants),
            "chat_template": _first(e.quantize.chat_template_sha256 for e in gathered.variants),
            "eval_sets": {
                s.name: s.record.eval_set_sha256
                for e in gathered.variants
                for s in e.quality
                if s.record.status is Status.OK
            },
            "workloads": {w.workload: w.prompt_sha256 for speed in timed for w in speed.workloads},
            "packages": _packages(used),
            "compute_dtype": _first(engine.compute_dtype for engine in used),
            "environment": _first(speed.environment_sha256 for speed in timed),
            "runtime": params.runtime.model_dump(mode="json"),
            "workload_settings": params.benchmark.model_dump(mode="json")["workloads"],
            "evaluate": params.evaluate.batch_size,
            "weights": {name: settings.weight for name, settings in params.eval_sets.items()},
            "headline": params.decision.workload,
        }
    )


def params_sha256(params: Params) -> dict[str, str]:
    """Hash of each part of params.yaml that decides what is measured; gates, weights and preferences do not."""
    parts: dict[str, object] = {
        "model": params.model.model_dump(mode="json"),
        "runtime": params.runtime.model_dump(mode="json"),
        "seed": params.seed,
        "benchmark.workloads": params.benchmark.model_dump(mode="json")["workloads"],
        "evaluate.batch_size": params.evaluate.batch_size,
    }
    parts |= {f"variants.{name}": variant.model_dump(mode="json") for name, variant in params.variants.items()}
    return {name: store.sha256_json(part) for name, part in parts.items()}


def describe(params: Params, gathered: Gathered) -> list[Section]:
    return [
        Section("Model", tuple(_model_lines(params, gathered))),
        Section("Machine", tuple(_machine_lines(gathered.environment))),
        Section("Engine", tuple(_engine_lines(gathered))),
        Section("Workloads", tuple(_workload_lines(params))),
        Section("Eval sets", tuple(_eval_set_lines(params, gathered))),
        Section("Variants", tuple(_variant_lines(params, gathered))),
    ]


def base(params: Params, gathered: Gathered) -> BaseModelInfo:
    """As the quantizers recorded it, else as params.yaml states it."""
    recorded = next((e.quantize.base for e in gathered.variants if e.quantize.base), None)
    return recorded or BaseModelInfo(
        name=params.model.name,
        source=", ".join(f"{key} {value}" for key, value in params.model.source.items()),
        revision="not recorded",
        licence=params.model.licence,
        provenance=params.model.provenance,
    )


def _model_lines(params: Params, gathered: Gathered) -> Iterator[tuple[str, str]]:
    recorded = base(params, gathered)
    yield "Name", recorded.name
    yield "Source", recorded.source
    yield "Revision", recorded.revision
    yield "Licence", recorded.licence
    yield "Provenance", recorded.provenance or NONE
    yield "Tokenizer", _hash(_first(e.quantize.tokenizer_sha256 for e in gathered.variants))
    yield "Chat template", _hash(_first(e.quantize.chat_template_sha256 for e in gathered.variants))


def _machine_lines(environment: Environment) -> Iterator[tuple[str, str]]:
    yield "CPU", f"{environment.cpu}, {environment.cpu_cores} cores"
    yield "Memory", display.memory(environment.memory_bytes)
    if environment.gpus:
        for gpu in environment.gpus:
            yield "GPU", f"{gpu.name}, {display.memory(gpu.memory_bytes)}, driver {gpu.driver}"
    else:
        yield "GPU", f"none: {environment.gpu_reason}"
    yield "System", f"{environment.os}, Python {environment.python}"
    yield "Packages", _listed(environment.packages)


def _engine_lines(gathered: Gathered) -> Iterator[tuple[str, str]]:
    used = engines_used(gathered)
    yield "Engine", ", ".join(dict.fromkeys(engine.name for engine in used)) or NONE
    yield "Packages", _listed(_packages(used))
    yield "Device", ", ".join(dict.fromkeys(f"{engine.device} ({engine.device_name})" for engine in used)) or NONE
    yield "Compute dtype", ", ".join(dict.fromkeys(engine.compute_dtype for engine in used)) or NONE
    yield "Threads", ", ".join(dict.fromkeys(str(engine.threads) for engine in used if engine.threads)) or NONE
    yield "Attention", ", ".join(dict.fromkeys(engine.attention for engine in used)) or NONE
    for evidence in gathered.variants:
        engine = next((engine for _, engine in engines(evidence)), None)
        kernels = ", ".join(f"{name} × {count}" for name, count in engine.kernels.items()) if engine else NONE
        yield f"Kernels of {evidence.variant}", kernels


def _workload_lines(params: Params) -> Iterator[tuple[str, str]]:
    for name, workload in params.benchmark.workloads.items():
        headline = "; stands in the table and decides" if name == params.decision.workload else ""
        yield (
            name,
            f"{workload.prompt_tokens} prompt tokens, {workload.output_tokens} output tokens, one stream, "
            f"{workload.warmup} warm-up, {workload.repeats} repeats{headline}",
        )


def _eval_set_lines(params: Params, gathered: Gathered) -> Iterator[tuple[str, str]]:
    for name, settings in params.eval_sets.items():
        scored = [s for e in gathered.variants for s in e.quality if s.name == name and s.record.status is Status.OK]
        if not scored:
            yield name, "no variant was scored on it"
            continue
        record = scored[0].record
        yield (
            name,
            f"version {record.eval_set_version}, {len(scored[0].items)} items, weight {settings.weight:g}, "
            f"sha256 {_hash(record.eval_set_sha256)}, decoding {_listed(record.decoding)}",
        )


def _variant_lines(params: Params, gathered: Gathered) -> Iterator[tuple[str, str]]:
    yield "Seed", str(params.seed)
    for evidence in gathered.variants:
        variant = params.variants[evidence.variant]
        settings = {key: value for key, value in variant.settings.items() if not isinstance(value, dict)}
        parts = [f"quantizer {variant.quantizer}", *([_listed(settings)] if settings else []), _calibration(evidence)]
        yield evidence.variant, "; ".join(filter(None, parts))


def _calibration(evidence: VariantEvidence) -> str:
    use = evidence.quantize.calibration
    if use is None:
        return ""
    return (
        f"calibrated on {use.set_name} {use.set_version}: {use.samples_kept} samples kept, {use.samples_dropped} "
        f"dropped, of {use.samples_total}; {use.tokens} tokens"
    )


def engines_used(gathered: Gathered) -> list[EngineInfo]:
    return [engine for evidence in gathered.variants for _, engine in engines(evidence)]


def _packages(used: list[EngineInfo]) -> dict[str, str]:
    return dict(sorted({name: version for engine in used for name, version in engine.packages.items()}.items()))


def _first(values: Iterator[str | None]) -> str | None:
    return next((value for value in values if value), None)


def _hash(value: str | None) -> str:
    return value[:12] if value else NONE


def _listed(values: dict[str, object] | dict[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items()) or NONE
