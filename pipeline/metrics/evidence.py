"""All that is known about one variant: the records of its stages, as read. Metrics are computed from this."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.artifact_records import QuantizeRecord
from pipeline.metrics import capacity, intervals, latency, noise_floor, paired_tests, roofline, sweep, validity
from pipeline.metrics.fidelity import Fidelity, summarize
from pipeline.metrics.noise_floor import NoiseFloor
from pipeline.metrics.paired_tests import Comparison, PairedSet, WorstCategory
from pipeline.metrics.pairing import Speedup
from pipeline.quality_records import FidelityRecord, ItemResult, QualityRecord
from pipeline.readings import Alternation, DeviceLimits, PairReading, SpeedRecord, WorkloadReadings
from pipeline.records import Interval, Outcome, Reading, Status, known, missing
from pipeline.smoke_records import SmokeRecord

Compare = Callable[[Sequence[PairReading], int], Speedup | str]
"""One of the ratios of `pipeline.metrics.pairing`."""


@dataclass(frozen=True)
class Serving:
    """What the variants will be served on, and how well; None where params.yaml does not say."""

    objective: sweep.Objective | None = None
    memory_gib: float | None = None
    price_per_hour: float | None = None
    max_spread: float | None = None
    """Of decode rates, (P75 - P25) / P50, above which a workload's times and rates are not used."""


@dataclass(frozen=True)
class ScoredSet:
    """One eval set as one variant answered it. `weight` is relative to the other sets'."""

    record: QualityRecord
    items: tuple[ItemResult, ...]
    weight: float

    @property
    def name(self) -> str:
        return self.record.eval_set


@dataclass(frozen=True)
class VariantEvidence:
    variant: str
    quantize: QuantizeRecord
    smoke: SmokeRecord
    speed: SpeedRecord
    quality: tuple[ScoredSet, ...]
    fidelity: FidelityRecord
    headline: str
    """The workload whose speed stands in the table."""
    concurrency: Mapping[str, int] = field(default_factory=dict)
    """Streams of each workload in params.yaml; one for those that are not named."""
    sweep_workload: str | None = None
    context_length: int | None = None
    """The most tokens that the model was made for."""
    serving: Serving = Serving()
    limits: tuple[DeviceLimits, ...] = ()
    """What the probes of all variants found, which ran on one device: the best of them counts for each variant."""
    baseline: VariantEvidence | None = field(default=None, repr=False)
    """What this variant is compared to; None for the baseline itself."""
    seed: int = 0

    @property
    def is_baseline(self) -> bool:
        return self.baseline is None

    @property
    def status(self) -> Status:
        """`ok` only when every stage was."""
        return next((record.status for _, record in self.outcomes() if record.status is not Status.OK), Status.OK)

    @property
    def reason(self) -> str | None:
        """Why the status is not ok: the first stage that failed, and what it said."""
        return next((f"{stage}: {record.reason}" for stage, record in self.outcomes() if record.reason), None)

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """The record of each stage in the order in which they run."""
        yield "quantize", self.quantize
        yield "smoke", self.smoke
        yield "benchmark", self.speed
        for scored in self.quality:
            yield f"evaluate {scored.name}", scored.record
        yield "fidelity", self.fidelity

    @property
    def artifact_sha256(self) -> str | None:
        return self.quantize.artifact_sha256

    @property
    def items(self) -> int:
        """How many items were scored."""
        return sum(len(scored.items) for scored in self.quality)

    @cached_property
    def unusable(self) -> str | None:
        """Why no time and no ratio of the speed record can be used, if so."""
        return self._benchmark_failed or validity.invalid(validity.record_reasons(self.speed))

    @cached_property
    def workloads(self) -> dict[str, latency.WorkloadSpeed]:
        """Speed by workload, each at its own concurrency; empty unless the benchmark is ok.

        The figures of an invalid one are missing, with the reason.
        """
        if self._benchmark_failed:
            return {}
        own = (readings for readings in self.speed.workloads if self._is_own(readings.workload, readings.concurrency))
        reasons, max_spread = validity.record_reasons(self.speed), self.serving.max_spread
        return {readings.workload: validity.checked(readings, max_spread, reasons) for readings in own}

    def incomparable(self, workload: str) -> str | None:
        """Why no ratio on this workload can be used, if so."""
        readings = self.readings(workload)
        if self.unusable or readings is None:
            return self.unusable or f"the benchmark has no workload {workload!r}"
        return validity.invalid(validity.workload_reasons(readings))

    def ratio(self, workload: str, compare: Compare) -> Speedup | str:
        """The variant against the baseline on one workload at its own concurrency, or why they are not compared.

        Of the baseline: two processes of it, that is, what this machine adds to a ratio of 1.
        """
        readings, refused = self.readings(workload), self.incomparable(workload)
        if refused:
            return refused
        assert readings is not None, "else they are incomparable"
        found = compare(readings.pairs, self.seed)
        alone = isinstance(found, str) and self.speed.alternation is Alternation.ALONE
        return f"{found}: {self.speed.alternation_reason}" if alone else found

    def readings(self, workload: str) -> WorkloadReadings | None:
        """The raw readings of a workload at its own concurrency."""
        found = (r for r in self.speed.workloads if r.workload == workload and self._is_own(workload, r.concurrency))
        return next(found, None)

    @cached_property
    def sweep(self) -> sweep.Sweep | str:
        """The levels of the swept workload, or the reason why there are none."""
        if self.unusable:
            return self.unusable
        levels = [readings for readings in self.speed.workloads if readings.workload == self.sweep_workload]
        if not levels:
            return "no workload was swept over concurrencies"
        return sweep.summarize(levels, self.serving.objective, self.seed, self.serving.max_spread)

    @cached_property
    def cache_size(self) -> capacity.CacheSize | str:
        if self._benchmark_failed:
            return self._benchmark_failed
        cache = self.speed.kv_cache
        return "the KV cache was not looked at" if cache is None else capacity.kv_bytes_per_token(cache)

    @cached_property
    def peak_memory(self) -> Reading:
        """The largest peak of the variant over the workloads, without the other levels of the sweep.

        So it is of the same work for every variant; missing where the variant has no peak for one of them.
        """
        refused = self._benchmark_failed or validity.invalid(validity.memory_reasons(self.speed))
        if refused:
            return missing(refused)
        levels = ((readings.workload, readings.concurrency) for readings in self.speed.workloads)
        return capacity.peak_bytes(self.speed.processes, [level for level in levels if self._is_own(*level)])

    @cached_property
    def memory_model(self) -> capacity.MemoryModel | str:
        """Peak memory by tokens in flight over all levels, or the reason why there is no such line."""
        refused = self._benchmark_failed or validity.invalid(validity.memory_reasons(self.speed))
        if refused:
            return refused
        if isinstance(self.cache_size, str):
            return self.cache_size
        context = self.cuda_context
        return capacity.memory_model(
            self.speed.processes, self.cache_size.bytes_per_token, (context.value or 0.0) if context else 0.0
        )

    @property
    def cuda_context(self) -> Reading | None:
        """What a process takes on the GPU beside its allocator's memory.

        None where its peaks hold everything: on a CPU, and where they are the driver's.
        """
        on_cuda = self.speed.engine is not None and self.speed.engine.device.startswith("cuda")
        beside = on_cuda and not capacity.peaks_by_driver(self.speed.processes)
        return capacity.cuda_context_bytes(self.speed.processes) if beside else None

    def largest_context(self, users: int) -> Reading:
        """Prompt and output tokens that each of so many users can have at once in `serving.memory_gib`."""
        if isinstance(self.memory_model, str):
            return missing(self.memory_model)
        if self.serving.memory_gib is None:
            return missing("no memory to fit into is given (serving.memory_gib)")
        if self.context_length is None:
            return missing("the model's context length is not known")
        room = self.serving.memory_gib * 2**30
        return known(self.memory_model.largest_context(users, room, self.context_length))

    def roofline(self, workload: str) -> roofline.Roofline | str:
        """What bounds decoding on one workload, or the reason why that is not known."""
        if self._benchmark_failed:
            return self._benchmark_failed
        speed, record = self.workloads.get(workload), self.speed
        if speed is None:
            return f"the benchmark has no workload {workload!r}"
        if isinstance(self.cache_size, str):
            return self.cache_size
        if record.decode_weight_bytes is None or record.parameters is None:
            return "the weights were not counted"
        work = roofline.Work(record.decode_weight_bytes, self.cache_size.bytes_per_token, record.parameters)
        return roofline.utilisation(work, speed, self.limits)

    @property
    def _benchmark_failed(self) -> str | None:
        ok = self.speed.status is Status.OK
        return None if ok else f"benchmark {self.speed.status.value}: {self.speed.reason}"

    def _is_own(self, workload: str, concurrency: int) -> bool:
        return concurrency == self.concurrency.get(workload, 1)

    @cached_property
    def pass_share(self) -> Reading:
        """Share of all items, over all eval sets, that passed."""
        unscored = _why_unscored(self)
        if unscored or not self.items:
            return missing(unscored or "no item was scored")
        return known(sum(item.passed for scored in self.quality for item in scored.items) / self.items)

    @cached_property
    def quality_interval(self) -> Interval | str:
        """Weighted mean score over the eval sets, or the reason why there is none."""
        unscored = _why_unscored(self)
        if unscored:
            return unscored
        return intervals.weighted([(_overall(scored), scored.weight) for scored in self.quality])

    @cached_property
    def paired(self) -> tuple[PairedSet, ...] | str:
        """Each eval set as this variant and the baseline answered it, or the reason why they are not compared."""
        if self.baseline is None:
            return "the baseline is not compared to itself"
        unscored = _why_unscored(self) or _why_unscored(self.baseline)
        if unscored:
            return unscored
        theirs = {scored.name: scored.items for scored in self.baseline.quality}
        return tuple(PairedSet(scored.name, scored.items, theirs[scored.name]) for scored in self.quality)

    @cached_property
    def delta_interval(self) -> Interval | str:
        """Weighted mean of variant - baseline on the same items, or the reason why there is none."""
        if isinstance(self.paired, str):
            return self.paired
        deltas = (intervals.difference(part.ours, part.theirs, self.seed) for part in self.paired)
        weights = (scored.weight for scored in self.quality)
        return intervals.weighted(list(zip(deltas, weights, strict=True)), lowest=-1)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...] | str:
        """Lost, won, delta and p-value of every eval set and of every category, or the reason why there are none."""
        return self.paired if isinstance(self.paired, str) else paired_tests.compare(self.paired, self.seed)

    @cached_property
    def worst_category(self) -> WorstCategory | str:
        """The category with the lowest delta over all eval sets, or the reason why there is none."""
        return self.paired if isinstance(self.paired, str) else paired_tests.worst_category(self.paired, self.seed)

    @cached_property
    def flips(self) -> intervals.Flips | str:
        """Items whose pass/fail differs from the baseline's, over all eval sets, or the reason why there are none."""
        if self.baseline is None:
            return intervals.Flips((), ())
        if isinstance(self.paired, str):
            return self.paired
        found = [intervals.flips(part.ours, part.theirs) for part in self.paired]
        return intervals.Flips(
            lost=tuple(pair for part in found for pair in part.lost),
            won=tuple(pair for part in found for pair in part.won),
        )

    @cached_property
    def noise_floor(self) -> NoiseFloor | str:
        """What the batch alone changes, by this variant and the baseline, or the reason why that is not known."""
        theirs = self.baseline.quality if self.baseline else ()
        unscored = _why_unscored(self) or (self.baseline and _why_unscored(self.baseline))
        return unscored or noise_floor.noise_floor(
            [(scored.record, scored.weight) for scored in self.quality],
            [(scored.record, scored.weight) for scored in theirs],
        )

    @cached_property
    def nearness(self) -> Fidelity | str:
        """How near it is to the baseline on the fidelity text, or the reason why that is not known.

        Of the baseline: how near a second load of it is, which is what the engine alone adds.
        """
        return self.uncompared or summarize(self.fidelity, self.seed)

    @property
    def uncompared(self) -> str | None:
        """Why the fidelity record holds no comparison, if so."""
        record = self.fidelity
        if record.status is not Status.OK:
            return f"fidelity {record.status.value}: {record.reason}"
        return None if record.blocks else "the baseline has no sound artifact to compare with"


def _overall(scored: ScoredSet) -> Interval:
    assert scored.record.overall is not None
    return scored.record.overall


def _why_unscored(evidence: VariantEvidence) -> str | None:
    """Why this variant has no overall quality: an eval set that was not scored."""
    for scored in evidence.quality:
        if scored.record.status is not Status.OK:
            return f"{evidence.variant} was not scored on {scored.name}: {scored.record.reason}"
        if scored.record.overall is None:
            return f"the record of {evidence.variant} on {scored.name} has no overall score"
    return None
