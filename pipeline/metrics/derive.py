"""From the evidence of one variant to one reading. What cannot be had is missing, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from pipeline.metrics import cost, failures, latency, request_times, sweep
from pipeline.metrics.evidence import Compare, VariantEvidence
from pipeline.metrics.fidelity import Fidelity
from pipeline.metrics.intervals import Flips
from pipeline.metrics.latency import WorkloadSpeed
from pipeline.metrics.pairing import Speedup
from pipeline.metrics.request_times import Times
from pipeline.quality_records import FinishReason, Flaw, QualityRecord
from pipeline.readings import Side
from pipeline.records import Interval, Reading, Status, known, missing

Compute = Callable[[VariantEvidence], Reading]


def _not_ok(stage: str, status: Status, reason: str | None) -> Reading | None:
    return None if status is Status.OK else missing(f"{stage} {status.value}: {reason}")


def headline(part: Callable[[WorkloadSpeed, VariantEvidence], Reading]) -> Compute:
    """A figure of the headline workload; missing, with the reason, where it was not measured or is invalid."""

    def compute(evidence: VariantEvidence) -> Reading:
        refused = _not_ok("benchmark", evidence.speed.status, evidence.speed.reason)
        if refused:
            return refused
        found = evidence.workloads.get(evidence.headline)
        return (
            missing(f"the benchmark has no workload {evidence.headline!r}") if found is None else part(found, evidence)
        )

    return compute


def speed(field: str) -> Compute:
    """A statistic of the headline workload."""

    def part(found: WorkloadSpeed, _: VariantEvidence) -> Reading:
        reading: Reading = attrgetter(field)(found)
        return reading

    return headline(part)


def percentile(field: str, times: Times, percent: int) -> Compute:
    """A percentile of the headline workload's requests."""

    def part(found: WorkloadSpeed, evidence: VariantEvidence) -> Reading:
        readings = evidence.readings(found.workload)
        assert readings is not None, "the speed of a workload is from its readings"
        return request_times.enough(attrgetter(field)(found), times, percent, readings)

    return headline(part)


def percentile_end(field: str, times: Times, percent: int, end: int) -> Compute:
    """The lower (0) or upper (1) end of its interval; missing where the percentile is."""

    def part(found: WorkloadSpeed, evidence: VariantEvidence) -> Reading:
        value = percentile(field, times, percent)(evidence)
        readings = evidence.readings(found.workload)
        if value.value is None or readings is None:
            return value
        return request_times.interval(times, percent, readings)[end]

    return headline(part)


def failure_rate(part: Callable[[failures.Requests], float]) -> Compute:
    """Of all workloads and eval items together."""

    def compute(evidence: VariantEvidence) -> Reading:
        refused = _not_ok("benchmark", evidence.speed.status, evidence.speed.reason)
        return refused or over_sets(lambda _: known(part(failures.requests(evidence))))(evidence)

    return compute


def ratio(compare: Compare, part: Callable[[Speedup], Reading]) -> Compute:
    """One part of the variant's ratio to the baseline on the headline workload.

    The baseline's own is 1, with the interval 1..1, by definition. What two processes of it showed tells how noisy the
    machine is (`VariantEvidence.ratio`) and must neither rank nor gate it.
    """

    def compute(evidence: VariantEvidence) -> Reading:
        if evidence.is_baseline:
            refused = evidence.incomparable(evidence.headline)
            return missing(refused) if refused else known(1.0)
        found = evidence.ratio(evidence.headline, compare)
        return missing(found) if isinstance(found, str) else part(found)

    return compute


def middle(found: Speedup) -> Reading:
    return known(found.ratio)


def goodput(found: WorkloadSpeed, evidence: VariantEvidence) -> Reading:
    readings = evidence.readings(found.workload)
    assert readings is not None, "the speed of a workload is from its readings"
    return sweep.goodput_requests_per_s(readings, found, evidence.serving.objective)


def mbu(found: WorkloadSpeed, evidence: VariantEvidence) -> Reading:
    roofline = evidence.roofline(found.workload)
    return missing(roofline) if isinstance(roofline, str) else roofline.mbu


def decode_cost(found: WorkloadSpeed, _: VariantEvidence) -> Reading:
    """What `pairing.decode_cost_ratio` compares: device time where it was read, which is on CUDA, else CPU time."""
    on_device = found.decode_device_s_per_token
    return found.decode_cpu_s_per_token if on_device.value is None else on_device


def cost_per_million_tokens(found: WorkloadSpeed, evidence: VariantEvidence) -> Reading:
    return cost.per_million_tokens(evidence.serving.price_per_hour, found.aggregate_tokens_per_s)


def cost_per_passing_answer(found: WorkloadSpeed, evidence: VariantEvidence) -> Reading:
    price = evidence.serving.price_per_hour
    return cost.per_passing_answer(price, found.latency_s_p50, found.concurrency, evidence.pass_share)


def swept(part: Callable[[sweep.Sweep], Reading]) -> Compute:
    """A figure of the sweep over concurrencies."""

    def compute(evidence: VariantEvidence) -> Reading:
        found = evidence.sweep
        return missing(found) if isinstance(found, str) else part(found)

    return compute


def knee_concurrency(found: sweep.Sweep) -> Reading:
    return known(found.knee.concurrency) if found.knee else missing("fewer than two levels can be compared")


def best_aggregate(found: sweep.Sweep) -> Reading:
    best = found.best_aggregate
    return best.aggregate_tokens_per_s if best else found.levels[0].aggregate_tokens_per_s


def peak_memory(evidence: VariantEvidence) -> Reading:
    return evidence.peak_memory


def kv_bytes_per_token(evidence: VariantEvidence) -> Reading:
    found = evidence.cache_size
    return missing(found) if isinstance(found, str) else known(found.bytes_per_token)


def load_s(evidence: VariantEvidence) -> Reading:
    """Median over the variant's processes."""
    if evidence.unusable:
        return missing(evidence.unusable)
    return latency.median([process.load_s for process in evidence.speed.processes if process.side is Side.VARIANT])


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


def critical_lost(evidence: VariantEvidence) -> Reading:
    """Missing where no item is critical: that none was lost would then say nothing."""
    items = [item for scored in evidence.quality for item in scored.items]
    if items and not any(item.critical for item in items):
        return missing("none of the items is critical (`critical: true` in items.jsonl)")
    return flips(lambda found: tuple(pair for pair in found.lost if pair[0].critical))(evidence)


def worst_category(part: Callable[[Interval], Reading]) -> Compute:
    """Of the baseline 0, with the interval 0..0, by definition, as its difference."""

    def compute(evidence: VariantEvidence) -> Reading:
        if evidence.is_baseline:
            return delta(part)(evidence)
        found = evidence.worst_category
        return missing(found) if isinstance(found, str) else part(found.interval)

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
    """Of the answers that were generated; a picked choice ends neither by itself nor by its length."""
    ended = [(reason, count) for record in records for reason, count in record.finish_reasons.items()]
    generated = sum(count for reason, count in ended if reason is not FinishReason.CHOICE)
    if not generated:
        return missing("every answer was picked among choices" if ended else "no finish reason was recorded")
    return known(sum(count for reason, count in ended if reason is FinishReason.LENGTH) / generated)


def flawed(flaw: Flaw) -> Callable[[list[QualityRecord]], Reading]:
    """How many answers have this flaw."""

    def total(records: list[QualityRecord]) -> Reading:
        return known(sum(record.flaws.get(flaw, 0) for record in records))

    return total


def over_context(records: list[QualityRecord]) -> Reading:
    return known(sum(len(record.over_context) for record in records))


def fidelity(part: Callable[[Fidelity], Reading]) -> Compute:
    """A figure of the comparison with the baseline's next-token distributions."""

    def compute(evidence: VariantEvidence) -> Reading:
        found = evidence.nearness
        return missing(found) if isinstance(found, str) else part(found)

    return compute
