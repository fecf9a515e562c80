"""From the evidence of one variant to one reading. What cannot be had is missing, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.intervals import Flips
from pipeline.metrics.latency import WorkloadSpeed
from pipeline.records import (
    Interval,
    MemoryReadings,
    QualityRecord,
    Reading,
    Status,
    known,
    missing,
)

Compute = Callable[[VariantEvidence], Reading]


def _not_ok(stage: str, status: Status, reason: str | None) -> Reading | None:
    return None if status is Status.OK else missing(f"{stage} {status.value}: {reason}")


def speed(field: str) -> Compute:
    """A statistic of the headline workload."""

    def compute(evidence: VariantEvidence) -> Reading:
        refused = _not_ok("benchmark", evidence.speed.status, evidence.speed.reason)
        if refused:
            return refused
        found: WorkloadSpeed | None = evidence.workloads.get(evidence.headline)
        if found is None:
            return missing(f"the benchmark has no workload {evidence.headline!r}")
        reading: Reading = attrgetter(field)(found)
        return reading

    return compute


def speedup(evidence: VariantEvidence) -> Reading:
    own = speed("decode_tokens_per_s")(evidence)
    if own.value is None or evidence.baseline is None:
        return known(1.0) if own.value is not None else own
    base = speed("decode_tokens_per_s")(evidence.baseline)
    if base.value is None:
        return missing(f"the baseline {evidence.baseline.variant} has no decode speed: {base.reason}")
    return known(own.value / base.value)


def peak_memory(evidence: VariantEvidence) -> Reading:
    refused = _not_ok("benchmark", evidence.speed.status, evidence.speed.reason)
    if refused:
        return refused
    memory: MemoryReadings | None = evidence.speed.memory
    if memory is None or evidence.speed.engine is None:
        return missing("the benchmark recorded no memory")
    on_cuda = evidence.speed.engine.device.startswith("cuda")
    return memory.allocator_reserved_peak_bytes if on_cuda else memory.process_run_peak_bytes


def load_s(evidence: VariantEvidence) -> Reading:
    refused = _not_ok("benchmark", evidence.speed.status, evidence.speed.reason)
    if refused:
        return refused
    return _or_missing(evidence.speed.load_s, "the benchmark recorded no load time")


def quantized(field: str) -> Compute:
    def compute(evidence: VariantEvidence) -> Reading:
        refused = _not_ok("quantize", evidence.quantize.status, evidence.quantize.reason)
        return refused or _or_missing(attrgetter(field)(evidence.quantize), f"the quantize record has no {field}")

    return compute


def _or_missing(value: float | None, reason: str) -> Reading:
    return missing(reason) if value is None else known(value)


def mean(interval: Interval) -> Reading:
    return known(interval.mean)


def quality(part: Callable[[Interval], Reading]) -> Compute:
    def compute(evidence: VariantEvidence) -> Reading:
        found = evidence.quality_interval
        return missing(found) if isinstance(found, str) else part(found)

    return compute


def delta(part: Callable[[Interval], Reading]) -> Compute:
    """The baseline's difference from itself is 0, with the interval 0..0, by definition."""

    def compute(evidence: VariantEvidence) -> Reading:
        if evidence.is_baseline:
            own = quality(mean)(evidence)
            return own if own.value is None else known(0.0)
        found = evidence.delta_interval
        return missing(found) if isinstance(found, str) else part(found)

    return compute


def flips(part: Callable[[Flips], tuple[object, ...]]) -> Compute:
    def compute(evidence: VariantEvidence) -> Reading:
        found = evidence.flips
        return missing(found) if isinstance(found, str) else known(len(part(found)))

    return compute


def over_sets(total: Callable[[list[QualityRecord]], Reading]) -> Compute:
    """A figure over all eval sets; missing unless each of them was scored."""

    def compute(evidence: VariantEvidence) -> Reading:
        for scored in evidence.quality:
            refused = _not_ok(f"evaluate {scored.name}", scored.record.status, scored.record.reason)
            if refused:
                return refused
        return total([scored.record for scored in evidence.quality])

    return compute


def length_share(records: list[QualityRecord]) -> Reading:
    ended = [(reason, count) for record in records for reason, count in record.finish_reasons.items()]
    items = sum(count for _, count in ended)
    if not items:
        return missing("no finish reason was recorded")
    return known(sum(count for reason, count in ended if reason == "length") / items)


def empty_outputs(records: list[QualityRecord]) -> Reading:
    if any(record.empty_outputs is None for record in records):
        return missing("empty outputs were not counted")
    return known(sum(record.empty_outputs or 0 for record in records))
