"""Speed of one workload from its raw clock readings. Times are seconds, rates are tokens per second.

TTFT, TPOT and ITL are named and computed as in vLLM's serving benchmark (`vllm/benchmarks/serve.py`,
`calculate_metrics`): TPOT = (latency - TTFT) / (output tokens - 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.records import Reading, RequestReading, WorkloadReadings, known, missing


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


def prefill_tokens_per_s(prompt_tokens: int, prefill_s: float) -> float:
    """Prompt tokens / time of one forward pass over the prompt."""
    return prompt_tokens / prefill_s


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
    """What the repeats of one workload say. Rates are medians over the repeats."""

    workload: str
    prompt_tokens: int
    output_tokens: int
    repeats: int
    ttft_s_p50: Reading
    ttft_s_p95: Reading
    tpot_s_p50: Reading
    tpot_s_p95: Reading
    latency_s_p50: Reading
    latency_s_p95: Reading
    decode_tokens_per_s: Reading
    decode_spread: Reading
    """Middle half of the per-request decode rates over their median: how steady the machine was."""
    end_to_end_tokens_per_s: Reading
    prefill_tokens_per_s: Reading


def summarize(readings: WorkloadReadings) -> WorkloadSpeed:
    """Every statistic of one workload."""
    requests = [request for request in readings.requests if request.token_s]
    decoding = [request for request in requests if decodes(request)]
    ttft = [ttft_s(request) for request in requests]
    tpot = [tpot_s(request) for request in decoding]
    latency = [latency_s(request) for request in requests]
    return WorkloadSpeed(
        workload=readings.workload,
        prompt_tokens=readings.prompt_tokens,
        output_tokens=readings.output_tokens,
        repeats=len(readings.requests),
        ttft_s_p50=median(ttft),
        ttft_s_p95=percentile(ttft, 0.95),
        tpot_s_p50=median(tpot),
        tpot_s_p95=percentile(tpot, 0.95),
        latency_s_p50=median(latency),
        latency_s_p95=percentile(latency, 0.95),
        decode_tokens_per_s=median([decode_tokens_per_s(request) for request in decoding]),
        decode_spread=relative_spread([decode_tokens_per_s(request) for request in decoding]),
        end_to_end_tokens_per_s=median(
            [end_to_end_tokens_per_s(request) for request in requests if latency_s(request)]
        ),
        prefill_tokens_per_s=median(
            [prefill_tokens_per_s(readings.prompt_tokens, seconds) for seconds in readings.prefill_s if seconds > 0]
        ),
    )
