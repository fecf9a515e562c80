"""Speed of one workload from its raw clock readings. Times are seconds, rates are tokens per second.

TTFT, TPOT and ITL are named and computed as in vLLM's serving benchmark (`vllm/benchmarks/serve.py`,
`calculate_metrics`): TPOT = (latency - TTFT) / (output tokens - 1).

A request is `concurrency` streams that are answered together, a static batch: they start together and step together,
so one list of token times holds for each of them. Under another load (streams that come and go, continuous batching)
TTFT also holds waiting, which is not measured here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.readings import RequestReading, WorkloadReadings
from pipeline.records import Reading, known, missing


def ttft_s(request: RequestReading) -> float:
    """Time to first token: request start → first generated token."""
    return request.token_s[0]


def latency_s(request: RequestReading) -> float:
    """End-to-end latency: request start → last generated token."""
    return request.token_s[-1]


def tpot_s(request: RequestReading) -> float:
    """Time per output token = (latency - TTFT) / (output tokens - 1).

    Raises:
        ValueError: fewer than two output tokens; see `decodes`.
    """
    if len(request.token_s) < 2:
        raise ValueError("TPOT needs at least two output tokens")
    return (latency_s(request) - ttft_s(request)) / (len(request.token_s) - 1)


def itl_s(request: RequestReading) -> list[float]:
    """Inter-token latencies: each gap between two consecutive tokens; one fewer than there are tokens."""
    return [after - before for before, after in zip(request.token_s, request.token_s[1:], strict=False)]


def decode_tokens_per_s(request: RequestReading) -> float:
    """Decode tokens/s of one stream = 1 / TPOT: how fast an answer grows once it has begun."""
    return 1 / tpot_s(request)


def end_to_end_tokens_per_s(request: RequestReading) -> float:
    """Output tokens / latency: what a caller who waits for the whole answer gets, prefill included."""
    return len(request.token_s) / latency_s(request)


def aggregate_tokens_per_s(request: RequestReading, concurrency: int) -> float:
    """All streams' output tokens / wall time = concurrency × output tokens / latency: what the machine delivers."""
    return concurrency * end_to_end_tokens_per_s(request)


def prefill_tokens_per_s(prompt_tokens: int, concurrency: int, prefill_s: float) -> float:
    """All streams' prompt tokens / time of one forward pass over the prompts."""
    return concurrency * prompt_tokens / prefill_s


def decode_cpu_s(request: RequestReading) -> float | None:
    """CPU seconds, all threads, of one decode step: of one token of every stream.

    Waiting for a busy core takes wall time but no CPU time, so this is often steadier than TPOT beside other work. It
    is not immune: while one thread waits for a core, the others may spin at a barrier.
    None where it was not read or is 0.
    """
    return _per_step(request, request.cpu_s)


def decode_device_s(request: RequestReading) -> float | None:
    """Seconds between CUDA events of one decode step: of one token of every stream; None on a CPU.

    The host drives the steps, so the gaps between its kernel launches are in it.
    """
    return _per_step(request, request.device_s)


def _per_step(request: RequestReading, spent: tuple[float, float] | None) -> float | None:
    if spent is None or len(request.token_s) < 2 or spent[1] <= spent[0]:
        return None
    return (spent[1] - spent[0]) / (len(request.token_s) - 1)


def decodes(request: RequestReading) -> bool:
    """Whether TPOT is defined and positive: two tokens or more, and time passed between them."""
    return len(request.token_s) > 1 and request.token_s[-1] > request.token_s[0]


def percentile(values: Sequence[float], q: float) -> Reading:
    """The q-quantile (0 < q < 1) by linear interpolation between closest ranks (Hyndman & Fan 1996, type 7).

    Above the median it needs n >= 1 / (1 - q) readings, 20 for P95: with fewer, the figure would be little more
    than the slowest reading under another name. Missing, with that reason, when the sample is smaller.
    """
    needed = 1 if q <= 0.5 else math.ceil(1 / (1 - q) - 1e-9)
    if len(values) < needed:
        return missing(f"P{100 * q:g} needs {needed} readings, there are {len(values)}")
    ordered = sorted(values)
    rank = q * (len(ordered) - 1)
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return known(ordered[below] + (rank - below) * (ordered[above] - ordered[below]))


def median(values: Sequence[float]) -> Reading:
    """The middle reading, or the mean of the two middle ones; missing when there is none."""
    return percentile(values, 0.5)


def relative_spread(values: Sequence[float]) -> Reading:
    """(P75 - P25) / P50: the interquartile range as a share of the median. Missing below 4 readings."""
    low, middle, high = percentile(values, 0.25), percentile(values, 0.5), percentile(values, 0.75)
    if low.value is None or high.value is None or not middle.value:
        return missing(high.reason or low.reason or middle.reason or "the median is 0")
    return known((high.value - low.value) / middle.value)


@dataclass(frozen=True)
class WorkloadSpeed:
    """What the requests of one side at one workload and concurrency say. Rates are medians over the requests."""

    workload: str
    concurrency: int
    prompt_tokens: int
    output_tokens: int
    requests: int
    ttft_s_p50: Reading
    ttft_s_p95: Reading
    ttft_s_p99: Reading
    tpot_s_p50: Reading
    tpot_s_p95: Reading
    tpot_s_p99: Reading
    itl_s_p50: Reading
    """Over all gaps of all requests, unlike TPOT, which is one mean gap a request."""
    itl_s_p95: Reading
    itl_s_p99: Reading
    latency_s_p50: Reading
    decode_tokens_per_s: Reading
    """Of one stream."""
    decode_spread: Reading
    """Middle half of the decode rates over their median: how steady the machine was."""
    end_to_end_tokens_per_s: Reading
    """Of one stream."""
    aggregate_tokens_per_s: Reading
    """Of all streams."""
    prefill_tokens_per_s: Reading
    """Of all streams."""
    decode_cpu_s_per_token: Reading
    """CPU seconds per decoded token, of any stream: a step's / concurrency."""
    decode_device_s_per_token: Reading


def variant_requests(readings: WorkloadReadings) -> list[RequestReading]:
    """The variant's side of every pair, over all processes."""
    return [pair.variant for pair in readings.pairs if pair.variant.token_s]


def summarize(readings: WorkloadReadings) -> WorkloadSpeed:
    """Every statistic of the variant's side of one workload."""
    requests = variant_requests(readings)
    decoding = [request for request in requests if decodes(request)]
    ended = [request for request in requests if latency_s(request) > 0]
    ttft = [ttft_s(request) for request in requests]
    tpot = [tpot_s(request) for request in decoding]
    itl = [gap for request in decoding for gap in itl_s(request)]
    latency = [latency_s(request) for request in requests]
    decode = [decode_tokens_per_s(request) for request in decoding]
    return WorkloadSpeed(
        workload=readings.workload,
        concurrency=readings.concurrency,
        prompt_tokens=readings.prompt_tokens,
        output_tokens=readings.output_tokens,
        requests=len(requests),
        ttft_s_p50=median(ttft),
        ttft_s_p95=percentile(ttft, 0.95),
        ttft_s_p99=percentile(ttft, 0.99),
        tpot_s_p50=median(tpot),
        tpot_s_p95=percentile(tpot, 0.95),
        tpot_s_p99=percentile(tpot, 0.99),
        itl_s_p50=median(itl),
        itl_s_p95=percentile(itl, 0.95),
        itl_s_p99=percentile(itl, 0.99),
        latency_s_p50=median(latency),
        decode_tokens_per_s=median(decode),
        decode_spread=relative_spread(decode),
        end_to_end_tokens_per_s=median([end_to_end_tokens_per_s(request) for request in ended]),
        aggregate_tokens_per_s=median([aggregate_tokens_per_s(request, readings.concurrency) for request in ended]),
        prefill_tokens_per_s=median(
            [
                prefill_tokens_per_s(readings.prompt_tokens, readings.concurrency, request.prefill_s)
                for request in requests
                if request.prefill_s
            ]
        ),
        decode_cpu_s_per_token=_per_token([decode_cpu_s(request) for request in requests], readings.concurrency),
        decode_device_s_per_token=_per_token([decode_device_s(request) for request in requests], readings.concurrency),
    )


def _per_token(steps: Sequence[float | None], concurrency: int) -> Reading:
    return median([step / concurrency for step in steps if step is not None])
