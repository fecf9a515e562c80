"""The data contract of the speed benchmark: raw readings of a variant measured in alternation with the baseline.

Only what a clock, a counter or the device said stands here; every statistic is derived in `pipeline.metrics`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from pipeline.records import EngineInfo, Outcome, Reading, Record, Sha256


class Side(StrEnum):
    """Whose reading it is. Where the variant is the baseline itself, each side is a process of its own."""

    VARIANT = "variant"
    BASELINE = "baseline"


class Alternation(StrEnum):
    """How the two sides took turns."""

    RESIDENT = "resident"
    """Both models stayed loaded, request by request; the idle one slept."""
    BLOCKS = "blocks"
    """One model at a time, loaded anew for each block of requests: both together do not fit in memory."""
    ALONE = "alone"
    """There was no baseline to measure against."""


class FailureKind(StrEnum):
    OUT_OF_MEMORY = "out of memory"
    TIMEOUT = "timeout"
    WORKER_DIED = "worker died"
    ERROR = "error"
    SKIPPED = "skipped"
    """Not tried, since the time for its workload was spent."""


class Stop(StrEnum):
    """Why no more process pairs were measured."""

    PRECISE = "precise"
    """The interval of the speed-up was narrow enough."""
    BUDGET = "budget"
    """The time in params.yaml was spent."""
    TIME_LIMIT = "time limit"
    """The time for the whole stage was nearly over."""
    NO_PAIRS = "no pairs"
    """There was nothing to pair: no baseline, or it did not answer."""


class RequestReading(Record):
    """Clock readings of `concurrency` streams that are answered together, from the request's start.

    The device is synchronised at each. All streams of a request step together (a static batch), so one list of
    times holds for each of them.
    """

    token_s: list[float]
    """When the streams' n-th token was there; `token_s[0]` is the TTFT, `token_s[-1]` the end-to-end latency."""
    cpu_s: tuple[float, float] | None = None
    """CPU time of the worker, all its threads, until the first and until the last token."""
    device_s: tuple[float, float] | None = None
    """Time between CUDA events until the first and until the last token; None on a CPU."""
    prefill_s: float | None = None
    """A forward pass over the prompts alone, up to the next-token logits; None where it was not measured."""


class PairReading(Record):
    """One turn of both sides on the same prompt, back to back."""

    process: int
    """Which pair of fresh processes, from 0."""
    variant_first: bool
    """The order was drawn at random."""
    variant: RequestReading
    baseline: RequestReading | None
    """None when there is no baseline to alternate with, or when its turn failed."""


class WorkloadReadings(Record):
    workload: str
    concurrency: int = Field(ge=1)
    prompt_tokens: int
    output_tokens: int
    prompt_sha256: Sha256
    pairs: list[PairReading]


class Failure(Record):
    """Something asked of a worker that gave no reading."""

    process: int
    side: Side
    step: Literal["load", "request", "probe", "finish"]
    workload: str | None = None
    """Of the request."""
    concurrency: int | None = None
    kind: FailureKind
    reason: str


class LevelPeak(Record):
    """The largest memory while the first request of this size was answered; sizes are tried from small to large."""

    workload: str
    concurrency: int
    tokens: int
    """Tokens in flight at the end: concurrency × (prompt tokens + output tokens)."""
    peak_bytes: Reading
    """CUDA: most memory torch's allocator had reserved, or NVML's figure where `MemoryReadings.peaks_by_driver`.
    CPU: peak resident set of the worker."""


class MemoryReadings(Record):
    """Device memory on CUDA, process memory on CPU. `process_*` is the resident set of the worker process."""

    weight_bytes: Reading
    """Bytes of parameters and buffers as loaded."""
    process_load_peak_bytes: Reading
    process_run_peak_bytes: Reading
    allocator_peak_bytes: Reading
    allocator_reserved_peak_bytes: Reading
    nvml_process_bytes: Reading
    peaks_by_driver: bool = False
    """Whether the peaks of requests are `nvml_process_bytes`, the CUDA context included, as of an engine on CUDA that
    takes its memory past torch's allocator."""


class ProcessReading(Record):
    """One worker process from loading to its end."""

    process: int
    side: Side
    alternation: Alternation
    load_s: float
    peaks: list[LevelPeak]
    memory: MemoryReadings
    swap_bytes: Reading
    """Most memory of the worker that the system had moved to swap."""
    idle_cpu_share: Reading
    """CPU time that the worker took while it was the other side's turn, as a share of that time."""
    foreign_gpu_processes: Reading
    """Most processes on the device that are none of ours."""
    throttled_share: Reading
    """Share of the requests after which the device said that its clocks were held down by heat or power supply."""


class KvCache(Record):
    """Memory of the keys and values of past tokens, from the model's config and as measured."""

    layers: int
    kv_heads: int
    head_dim: int
    bytes_per_element: int
    measured_tokens: int
    """Tokens in the cache when its size was read."""
    measured_bytes: int


class DeviceLimits(Record):
    """What the device can do at best, by a probe in the worker after its requests."""

    bytes_per_s: dict[str, float]
    """Best rate of each streaming kernel (`copy`, `add`, `read`), bytes read and written together."""
    array_bytes: int
    """Size of one array of the probe."""
    flops_per_s: Reading
    """Best rate of a square matrix product in the compute dtype, 2n³ operations each."""


class SpeedRecord(Outcome):
    stage: Literal["benchmark"] = "benchmark"
    baseline: str | None = None
    artifact_sha256: Sha256 | None = None
    baseline_artifact_sha256: Sha256 | None = None
    engine: EngineInfo | None = None
    environment_sha256: Sha256 | None = None
    seed: int | None = None
    baseline_engine: EngineInfo | None = None
    alternation: Alternation | None = None
    """Of the deciding workload; each process says its own."""
    alternation_reason: str | None = None
    """Why it was not `resident`."""
    stop: Stop | None = None
    measured_s: float | None = None
    """Wall time of the whole measurement."""
    decode_weight_bytes: int | None = None
    """Bytes of the weights that decoding one token reads: all of them, but only one row of an untied embedding."""
    parameters: int | None = None
    """Weights of the base model, tied ones counted once: a token costs about 2 operations for each."""
    context_length: int | None = None
    """The most tokens that the model was made for."""
    workloads: list[WorkloadReadings] = Field(default_factory=list)
    """One entry per workload and concurrency: the workloads of params.yaml at theirs, and the sweep's levels."""
    processes: list[ProcessReading] = Field(default_factory=list)
    failures: list[Failure] = Field(default_factory=list)
    kv_cache: KvCache | None = None
    limits: DeviceLimits | None = None
