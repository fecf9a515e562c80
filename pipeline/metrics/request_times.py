"""Percentiles of the times of single requests, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

from pipeline.metrics import binomial, latency
from pipeline.readings import WorkloadReadings
from pipeline.records import Reading, missing

Times = Callable[[WorkloadReadings], list[float]]


def ttfts(readings: WorkloadReadings) -> list[float]:
    """TTFT of each request of the variant, in seconds."""
    return [latency.ttft_s(request) for request in latency.variant_requests(readings)]


def tpots(readings: WorkloadReadings) -> list[float]:
    """TPOT of each request of the variant, in seconds."""
    return [latency.tpot_s(request) for request in latency.variant_requests(readings) if latency.decodes(request)]


def processes(readings: WorkloadReadings) -> int:
    """Pairs of processes in which the workload was measured."""
    return len({pair.process for pair in readings.pairs})


def turns(requests: int, pairs_of_processes: int) -> str:
    """How params.yaml asks for so many requests, in words."""
    return (
        f"`pairs`: {math.ceil(requests / pairs_of_processes)} turns in each of {pairs_of_processes} pairs of processes"
    )


def enough(found: Reading, times: Times, percent: int, readings: WorkloadReadings) -> Reading:
    """The percentile; one that is missing for want of requests tells how to ask for enough of them."""
    count, needed = len(times(readings)), math.ceil(100 / (100 - percent) - 1e-9)
    if found.value is not None or not 0 < count < needed:
        return found
    return missing(f"{found.reason} ({turns(needed, processes(readings))})")


def interval(times: Times, percent: int, readings: WorkloadReadings) -> tuple[Reading, Reading]:
    """Ends of the percentile's 95 % interval; see `binomial.percentile_interval`.

    Requests are taken as independent. Those of one process go together, so it is somewhat too narrow.
    """
    return binomial.percentile_interval(times(readings), percent / 100)
