"""What a variant takes in memory, and how many users with how much context fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from pipeline.metrics import capacity, validity
from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.metrics.evidence import VariantEvidence
from pipeline.readings import MemoryReadings, Side
from pipeline.records import Reading, Status, known, missing
from pipeline.report import cells
from pipeline.report.breakdown.words import level
from pipeline.report.cells import Cell

USERS = (1, 2, 4, 8, 16, 32)
EXTRAPOLATED = "†"
_WEIGHTS = BY_NAME["weight_bytes"]
_CACHE = BY_NAME["kv_bytes_per_token"]


@dataclass(frozen=True)
class Line:
    label: str
    cells: tuple[Cell, ...]
    """In the order of the variants."""


def kind(variants: Sequence[VariantEvidence]) -> str:
    """Whose memory a peak is."""
    if not _on_cuda(variants):
        return "the worker's resident set, libraries included"
    by_driver = [e.variant for e in variants if _by_driver(e)]
    whole = "NVML's figure for the process, the CUDA context included"
    if len(by_driver) == len(variants):
        return whole
    reserved = "the most that the allocator had reserved on the GPU; the CUDA context comes on top, as in NVML's figure"
    return f"{reserved} (of {', '.join(by_driver)}: {whole})" if by_driver else reserved


def sizes(variants: Sequence[VariantEvidence]) -> list[Line]:
    """Weights, cache, and the peaks that are of no single request."""
    figures: list[tuple[str, Callable[[VariantEvidence], Cell]]] = [
        ("Weights on disk", lambda e: _size(_WEIGHTS.compute(e))),
        ("Weights as loaded", lambda e: _largest(e, attrgetter("weight_bytes"))),
        ("KV cache per token", _cache),
        ("Fixed part of a peak", lambda e: _of_model(e, _WEIGHTS, attrgetter("fixed_bytes"))),
        ("Part of a peak per token", lambda e: _of_model(e, _CACHE, attrgetter("slope_bytes"))),
        ("Process, while loading", lambda e: _peak_of_process(e, attrgetter("process_load_peak_bytes"))),
        ("Process, while running", lambda e: _peak_of_process(e, attrgetter("process_run_peak_bytes"))),
    ]
    if _on_cuda(variants):
        figures += [
            ("Allocated on the GPU", lambda e: _peak_of_process(e, attrgetter("allocator_peak_bytes"))),
            ("Reserved on the GPU", lambda e: _peak_of_process(e, attrgetter("allocator_reserved_peak_bytes"))),
            ("CUDA context", _cuda_context),
            ("Process on the GPU, by NVML", lambda e: _peak_of_process(e, attrgetter("nvml_process_bytes"))),
        ]
    return [Line(label, tuple(cell(evidence) for evidence in variants)) for label, cell in figures]


def peaks(variants: Sequence[VariantEvidence]) -> list[Line]:
    """The largest peak at each size of request, from small to large."""
    asked = {
        (r.workload, r.concurrency): r.concurrency * (r.prompt_tokens + r.output_tokens)
        for e in variants
        for r in e.speed.workloads
    }
    return [
        Line(f"{level(*key)}, {asked[key]:,} tokens", tuple(_peak(evidence, key) for evidence in variants))
        for key in sorted(asked, key=lambda key: (asked[key], key))
    ]


def contexts(variants: Sequence[VariantEvidence]) -> list[Line]:
    """Prompt and output tokens of each of so many users that fit in `serving.memory_gib`."""
    return [Line(str(users), tuple(_context(evidence, users) for evidence in variants)) for users in USERS]


def strangers(variants: Sequence[VariantEvidence]) -> Iterator[str]:
    """Variants that did not have the GPU to themselves."""
    for evidence in variants:
        found = (process.foreign_gpu_processes.value or 0 for process in evidence.speed.processes)
        if max(found, default=0) > 0:
            yield f"another process was on the GPU while {evidence.variant} was measured"


def notes(variants: Sequence[VariantEvidence]) -> Iterator[str]:
    """What a reader must know about these numbers."""
    for evidence in variants:
        found = evidence.cache_size
        if not isinstance(found, str) and found.note:
            yield f"KV cache of {evidence.variant}: {found.note}"
    largest = {e.memory_model.largest_tokens for e in variants if not isinstance(e.memory_model, str)}
    if largest:
        yield (
            f"{EXTRAPOLATED} extrapolated beyond the largest measured size, "
            f"{' or '.join(f'{tokens:,}' for tokens in sorted(largest))} tokens in flight"
        )
    for evidence in variants:
        context = evidence.cuda_context
        if context is not None and not isinstance(evidence.memory_model, str):
            yield _context_note(evidence.variant, context)
    lengths = {e.context_length for e in variants if e.context_length}
    for length in sorted(lengths):
        yield f"no context is longer than the model's own, {length:,} tokens"


def _context_note(variant: str, context: Reading) -> str:
    if context.value is None:
        return f"what fits of {variant} is without its CUDA context, which comes on top: {context.reason}"
    return f"what fits of {variant} leaves room for its CUDA context, {_WEIGHTS.display(context.value)}"


def _size(found: Reading) -> Cell:
    return cells.reading(_WEIGHTS, found)


def _refused(evidence: VariantEvidence) -> str | None:
    """Why no peak of this variant can be shown, if so."""
    if evidence.speed.status is not Status.OK:
        return f"benchmark {evidence.speed.status.value}: {evidence.speed.reason}"
    return validity.invalid(validity.memory_reasons(evidence.speed))


def _largest(evidence: VariantEvidence, read: Callable[[MemoryReadings], Reading]) -> Cell:
    """The largest reading over the variant's processes."""
    found = [read(process.memory) for process in evidence.speed.processes if process.side is Side.VARIANT]
    values = [reading.value for reading in found if reading.value is not None]
    if values:
        return _size(known(max(values)))
    reasons = (reading.reason for reading in found if reading.reason)
    return cells.absent(next(reasons, evidence.speed.reason or "no process was measured to its end"))


def _peak_of_process(evidence: VariantEvidence, read: Callable[[MemoryReadings], Reading]) -> Cell:
    refused = _refused(evidence)
    return cells.absent(refused) if refused else _largest(evidence, read)


def _of_model(evidence: VariantEvidence, metric: Metric, read: Callable[[capacity.MemoryModel], float]) -> Cell:
    model = evidence.memory_model
    return cells.absent(model) if isinstance(model, str) else cells.reading(metric, known(read(model)))


def _cuda_context(evidence: VariantEvidence) -> Cell:
    held = "the peaks hold it" if _by_driver(evidence) else "the model runs on the CPU"
    return _size(evidence.cuda_context or missing(held))


def _cache(evidence: VariantEvidence) -> Cell:
    found = evidence.cache_size
    if isinstance(found, str):
        return cells.absent(found)
    return Cell(_CACHE.display(found.bytes_per_token), reason=found.note or "config and measurement agree")


def _peak(evidence: VariantEvidence, key: tuple[str, int]) -> Cell:
    refused = _refused(evidence)
    return _size(missing(refused) if refused else capacity.peak_bytes(evidence.speed.processes, [key]))


def _context(evidence: VariantEvidence, users: int) -> Cell:
    found, model = evidence.largest_context(users), evidence.memory_model
    if found.value is None or isinstance(model, str):
        return cells.absent(found.reason or str(model))
    if found.value == 0:
        return Cell("none", reason="not even the model fits")
    beyond = users * found.value > model.largest_tokens
    return Cell(f"{found.value:,.0f}{EXTRAPOLATED if beyond else ''}")


def _by_driver(evidence: VariantEvidence) -> bool:
    return capacity.peaks_by_driver(evidence.speed.processes)


def _on_cuda(variants: Sequence[VariantEvidence]) -> bool:
    return any(e.speed.engine is not None and e.speed.engine.device.startswith("cuda") for e in variants)
