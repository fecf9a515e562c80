"""Under which conditions the numbers were made: in words for people, as hashes for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipeline import __version__, store
from pipeline.artifact_records import BaseModelInfo
from pipeline.metrics import display
from pipeline.metrics.evidence import VariantEvidence
from pipeline.params import Params
from pipeline.readings import Side
from pipeline.records import EngineInfo, Environment, Status
from pipeline.report.breakdown import pairing
from pipeline.report.breakdown.words import counted
from pipeline.report.conflicts import engines
from pipeline.report.gather import Gathered
from pipeline.report.rows import kernel_note

NONE = "–"


@dataclass(frozen=True)
class Section:
    title: str
    lines: tuple[tuple[str, str], ...]
    """Label and value."""


def sha256(params: Params, gathered: Gathered) -> str:
    """Hash over base model, tokenizer, items, prompts, how it is measured, engine packages and machine; not results."""
    used = engines_used(gathered)
    timed = [e.speed for e in gathered.variants if e.speed.status is Status.OK]
    return store.sha256_json(
        {
            "base": base(params, gathered).model_dump(mode="json"),
            "baseline": params.baseline,
            "tokenizer": _first(e.quantize.tokenizer_sha256 for e in gathered.variants),
            "chat_template": _first(e.quantize.chat_template_sha256 for e in gathered.variants),
            "eval_sets": {
                s.name: s.record.eval_set_sha256
                for e in gathered.variants
                for s in e.quality
                if s.record.status is Status.OK
            },
            "workloads": {w.workload: w.prompt_sha256 for speed in timed for w in speed.workloads},
            "fidelity": [_fidelity(params), _first(e.fidelity.text_sha256 for e in gathered.variants)],
            "packages": _packages(used),
            "compute_dtype": _first(engine.compute_dtype for engine in used),
            "environment": _first(speed.environment_sha256 for speed in timed),
            "runtime": params.runtime.model_dump(mode="json"),
            "benchmark": _benchmark(params),
            "evaluate": params.evaluate.batch_size,
            "weights": {name: settings.weight for name, settings in params.eval_sets.items()},
            "headline": params.decision.workload,
        }
    )


def params_sha256(params: Params) -> dict[str, str]:
    """Hash of each part of params.yaml that decides what is measured; gates, weights and `serving` do not.

    `decision.workload` does: it is the one that is measured until its speed-up is known well enough.
    """
    parts: dict[str, object] = {
        "model": params.model.model_dump(mode="json"),
        "runtime": params.runtime.model_dump(mode="json"),
        "seed": params.seed,
        "baseline": params.baseline,
        "decision.workload": params.decision.workload,
        "evaluate.batch_size": params.evaluate.batch_size,
        "fidelity": _fidelity(params),
        "smoke": params.smoke.model_dump(mode="json", exclude={"timeout_s"}),
    }
    parts |= {f"benchmark.{name}": part for name, part in _benchmark(params).items()}
    parts |= {f"variants.{name}": variant.model_dump(mode="json") for name, variant in params.variants.items()}
    return {name: store.sha256_json(part) for name, part in parts.items()}


def _benchmark(params: Params) -> dict[str, object]:
    """What decides the measurement; a time limit only ends it."""
    return params.benchmark.model_dump(mode="json", include={"pairing", "workloads", "sweep"})


def _fidelity(params: Params) -> dict[str, object]:
    return params.fidelity.model_dump(mode="json", exclude={"timeout_s"})


def describe(params: Params, gathered: Gathered) -> list[Section]:
    return [
        Section("Model", tuple(_model_lines(params, gathered))),
        Section("Machine", tuple(_machine_lines(gathered.environment))),
        Section("Engine", tuple(_engine_lines(gathered))),
        Section("Speed", tuple(_speed_lines(params, gathered))),
        Section("Workloads", tuple(_workload_lines(params))),
        Section("Serving", tuple(_serving_lines(params))),
        Section("Eval sets", tuple(_eval_set_lines(params, gathered))),
        Section("Fidelity", tuple(_fidelity_lines(params, gathered))),
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
    alike = Counter((gpu.name, gpu.memory_bytes, gpu.driver) for gpu in environment.gpus)
    for (name, memory_bytes, driver), count in alike.items():
        yield "GPU", f"{count} × {name}, {display.memory(memory_bytes)} each, driver {driver}"
    if not alike:
        yield "GPU", f"none: {environment.gpu_reason}"
    yield "System", f"{environment.os}, Python {environment.python}, quantgate {__version__}"
    yield "Packages", _listed(environment.packages)


def _engine_lines(gathered: Gathered) -> Iterator[tuple[str, str]]:
    used = engines_used(gathered)
    yield "Engine", _distinct(engine.name for engine in used)
    yield "Packages", _listed(_packages(used))
    yield "Device", _distinct(f"{engine.device} ({engine.device_name})" for engine in used)
    yield "Compute dtype", _distinct(engine.compute_dtype for engine in used)
    threads = [("threads", str(engine.threads)) for engine in used if engine.threads]
    settings = [*threads, *((name, value) for engine in used for name, value in engine.settings.items())]
    for name in dict.fromkeys(name for name, _ in settings):
        yield name.capitalize(), _distinct(value for other, value in settings if other == name)
    yield "Attention", _distinct(engine.attention for engine in used)
    for evidence in gathered.variants:
        engine = next((engine for _, engine in engines(evidence)), None)
        kernels = ", ".join(f"{name} × {count}" for name, count in engine.kernels.items()) if engine else NONE
        yield f"Kernels of {evidence.variant}", "; ".join(filter(None, (kernels, kernel_note(engine))))


def _speed_lines(params: Params, gathered: Gathered) -> Iterator[tuple[str, str]]:
    asked = params.benchmark.pairing
    yield "Order", "variant and baseline answer the same prompt in turn; who goes first is drawn at random"
    yield (
        "Pairs of processes",
        f"at least {asked.processes}, then more on {params.decision.workload} until its speed-up is known to "
        f"± {display.share(asked.half_width)} or {asked.budget_s} s are spent",
    )
    for evidence in gathered.variants:
        yield evidence.variant, _measured(evidence)


def _measured(evidence: VariantEvidence) -> str:
    speed = evidence.speed
    processes = {process.process for process in speed.processes if process.side is Side.VARIANT}
    if speed.alternation is None or speed.measured_s is None:
        return "not measured"
    whole = counted(len(processes), "pair of processes", "pairs of processes")
    return f"{pairing.alternated(speed)}; {whole} measured to the end, {display.seconds(speed.measured_s)} in all"


def _workload_lines(params: Params) -> Iterator[tuple[str, str]]:
    for name, workload in params.benchmark.workloads.items():
        headline = "; stands in the table and decides" if name == params.decision.workload else ""
        yield (
            name,
            f"{workload.prompt_tokens} prompt tokens, {workload.output_tokens} output tokens, "
            f"{counted(workload.concurrency, 'stream', 'streams')}, {counted(workload.pairs, 'pair', 'pairs')} in each "
            f"pair of processes{headline}",
        )
    yield "Decoding", "the likeliest token each time, exactly as many as stand above: no end token stops an answer"
    sweep = params.benchmark.sweep
    levels = ", ".join(map(str, sweep.concurrency))
    yield "Sweep", f"{sweep.workload} at {levels} streams" if levels else "none"


def _serving_lines(params: Params) -> Iterator[tuple[str, str]]:
    serving = params.serving
    objective = serving.objective
    yield (
        "Objective",
        f"TTFT ≤ {display.milliseconds(objective.ttft_s)} and TPOT ≤ {display.milliseconds(objective.tpot_s)}",
    )
    yield "Memory", f"{serving.memory_gib:g} GiB"
    price = serving.price_per_hour
    yield "Price", NONE if price is None else f"{display.money(price)} {serving.currency} per hour"
    yield (
        "Spread",
        f"times and rates of a workload are INVALID where the middle half of its decode rates spreads over more than "
        f"{display.share(serving.max_spread)} of their median",
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


def _fidelity_lines(params: Params, gathered: Gathered) -> Iterator[tuple[str, str]]:
    text = params.fidelity
    compared = next((e.fidelity for e in gathered.variants if e.uncompared is None), None)
    scored = f"{sum(block.tokens for block in compared.blocks):,} of them scored" if compared else "none scored"
    yield "Text", f"{text.text}, sha256 of its tokens {_hash(compared.text_sha256 if compared else None)}"
    yield "Tokens", f"the first {text.tokens:,} of the text, {scored}"
    yield "Window", f"{text.window_tokens:,} tokens, each read with nothing before it; its first one is not scored"


def _variant_lines(params: Params, gathered: Gathered) -> Iterator[tuple[str, str]]:
    yield "Seed", str(params.seed)
    for evidence in gathered.variants:
        variant = params.variants[evidence.variant]
        settings = {key: value for key, value in variant.settings.items() if not isinstance(value, dict)}
        parts = [
            f"quantizer {variant.quantizer}",
            *_precision(evidence),
            *([_listed(settings)] if settings else []),
            _calibration(evidence),
        ]
        yield evidence.variant, "; ".join(filter(None, parts))


def _precision(evidence: VariantEvidence) -> Iterator[str]:
    bits = evidence.quantize.bits_per_weight
    if bits is not None:
        yield f"stored at {display.bits(bits)} bits per weight"


def _calibration(evidence: VariantEvidence) -> str:
    use = evidence.quantize.calibration
    if use is None:
        return ""
    return (
        f"calibrated on {use.set_name} {use.set_version}: {use.samples_kept} of {use.samples_total} samples, "
        f"{use.tokens} tokens"
    )


def engines_used(gathered: Gathered) -> list[EngineInfo]:
    return [engine for evidence in gathered.variants for _, engine in engines(evidence)]


def _packages(used: list[EngineInfo]) -> dict[str, str]:
    return dict(sorted({name: version for engine in used for name, version in engine.packages.items()}.items()))


def _distinct(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values)) or NONE


def _first(values: Iterator[str | None]) -> str | None:
    return next((value for value in values if value), None)


def _hash(value: str | None) -> str:
    return value[:12] if value else NONE


def _listed(values: dict[str, object] | dict[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items()) or NONE
