"""One workload at several concurrencies: where the machine delivers most, and where a variant stops being faster.

A level is a static batch: its streams start and step together. See `pipeline.metrics.latency`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from pipeline.metrics import latency, pairing, validity
from pipeline.metrics.pairing import Speedup
from pipeline.readings import WorkloadReadings
from pipeline.records import Reading, known, missing


@dataclass(frozen=True)
class Objective:
    """Service level objective: a request is good when it meets both."""

    ttft_s: float
    tpot_s: float


class Versus(StrEnum):
    """A level's aggregate speed against the baseline's, by the 95 % interval of the ratio."""

    FASTER = "faster"
    SLOWER = "slower"
    ALIKE = "not to be told apart"
    """The interval holds 1."""
    UNKNOWN = "not compared"
    """There is no interval."""


@dataclass(frozen=True)
class Level:
    """The variant at one concurrency. Figures of an invalid level are missing, with the reason."""

    concurrency: int
    requests: int
    aggregate_tokens_per_s: Reading
    decode_tokens_per_s: Reading
    """Of one stream."""
    ttft_s_p50: Reading
    ttft_s_p95: Reading
    latency_s_p50: Reading
    goodput_requests_per_s: Reading
    power: Reading
    """Aggregate tokens/s / latency; see `Sweep.knee`."""
    aggregate_speedup: Speedup | str
    """Against the baseline at the same concurrency, or the reason why there is none."""

    @property
    def versus(self) -> Versus:
        found = self.aggregate_speedup
        if isinstance(found, str) or found.low.value is None or found.high.value is None:
            return Versus.UNKNOWN
        if found.low.value > 1:
            return Versus.FASTER
        return Versus.SLOWER if found.high.value < 1 else Versus.ALIKE


@dataclass(frozen=True)
class Run:
    """Neighbouring levels with the same outcome against the baseline."""

    versus: Versus
    first: int
    last: int
    """Concurrency of the first and of the last of them."""

    def __str__(self) -> str:
        span = f"{self.first} to {self.last}" if self.last > self.first else f"{self.first}"
        return f"{self.versus.value} at {span} {'stream' if self.last == 1 else 'streams'}"


@dataclass(frozen=True)
class Sweep:
    workload: str
    levels: tuple[Level, ...]
    """By rising concurrency; at least one."""

    @property
    def knee(self) -> Level | None:
        """The level of the greatest power, aggregate tokens/s / latency; None with fewer than two levels to compare.

        Power is throughput over delay (Kleinrock 1979, "Power and deterministic rules of thumb for probabilistic
        problems in computer communications", ICC): below the knee another stream adds more than it delays, above it
        less. Where the knee is the last level, the true one may lie beyond.
        """
        powers = [(level.power.value, level) for level in self.levels if level.power.value is not None]
        return max(powers, key=lambda found: found[0])[1] if len(powers) > 1 else None

    @property
    def best_aggregate(self) -> Level | None:
        """The level that delivers most tokens per second."""
        rates = [(level.aggregate_tokens_per_s.value, level) for level in self.levels]
        there = [(rate, level) for rate, level in rates if rate is not None]
        return max(there, key=lambda found: found[0])[1] if there else None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The outcomes against the baseline from the lowest level up, neighbours alike taken together."""
        grouped = [(versus, list(group)) for versus, group in groupby(self.levels, key=lambda level: level.versus)]
        return tuple(Run(versus, group[0].concurrency, group[-1].concurrency) for versus, group in grouped)

    @property
    def crossover(self) -> int | None:
        """The first level at which the variant is no longer faster, or no longer slower, as it was at the lowest."""
        decided = self.runs[0].versus in (Versus.FASTER, Versus.SLOWER)
        return self.runs[1].first if decided and len(self.runs) > 1 else None

    @property
    def words(self) -> str:
        """E.g. `faster at 1 to 4 streams, not to be told apart at 8 streams`."""
        return ", ".join(map(str, self.runs))


def summarize(
    readings: Sequence[WorkloadReadings], objective: Objective | None, seed: int, max_spread: float | None = None
) -> Sweep:
    """All levels of one workload. Decode rates that spread over more than `max_spread` make a level invalid.

    Raises:
        ValueError: no level, or levels of several workloads.
    """
    names = {level.workload for level in readings}
    if len(names) != 1:
        raise ValueError(f"a sweep is over the levels of one workload, not of {len(names)}")
    ordered = sorted(readings, key=lambda level: level.concurrency)
    return Sweep(names.pop(), tuple(_level(level, objective, seed, max_spread) for level in ordered))


def _level(readings: WorkloadReadings, objective: Objective | None, seed: int, max_spread: float | None) -> Level:
    speed = validity.checked(readings, max_spread)
    different_work = validity.invalid(validity.workload_reasons(readings))
    return Level(
        concurrency=readings.concurrency,
        requests=speed.requests,
        aggregate_tokens_per_s=speed.aggregate_tokens_per_s,
        decode_tokens_per_s=speed.decode_tokens_per_s,
        ttft_s_p50=speed.ttft_s_p50,
        ttft_s_p95=speed.ttft_s_p95,
        latency_s_p50=speed.latency_s_p50,
        goodput_requests_per_s=goodput_requests_per_s(readings, speed, objective),
        power=_power(speed),
        aggregate_speedup=different_work or pairing.aggregate_speedup(readings.pairs, seed),
    )


def _power(speed: latency.WorkloadSpeed) -> Reading:
    rate, delay = speed.aggregate_tokens_per_s, speed.latency_s_p50
    if rate.value is None or not delay.value:
        return missing(rate.reason or delay.reason or "the latency is 0")
    return known(rate.value / delay.value)


def goodput_requests_per_s(
    readings: WorkloadReadings, speed: latency.WorkloadSpeed, objective: Objective | None
) -> Reading:
    """Requests per second that meet the objective: concurrency × good turns / sum of the latencies of all turns.

    A turn is good when TTFT ≤ and TPOT ≤ what the objective says; its streams step together, so all of them meet it or
    none does. The sum of the latencies is the wall time of as many clients as there are streams, each of which sends
    its next request when the last one is answered. Good requests / wall time is the request goodput of vLLM's serving
    benchmark (`vllm/benchmarks/serve.py`); the idea is that of DistServe (Zhong et al. 2024, OSDI). Missing where the
    decode rate of `speed`, which is of the same readings, is.
    """
    if objective is None:
        return missing("no objective is given (serving.objective)")
    if speed.decode_tokens_per_s.value is None:
        return speed.decode_tokens_per_s
    turns = [turn for turn in latency.variant_requests(readings) if latency.decodes(turn)]
    good = sum(latency.ttft_s(turn) <= objective.ttft_s and latency.tpot_s(turn) <= objective.tpot_s for turn in turns)
    return known(readings.concurrency * good / sum(latency.latency_s(turn) for turn in turns))
