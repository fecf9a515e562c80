"""What fits into memory: bytes per cached token, and a line through the measured peaks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.readings import KvCache, LevelPeak, ProcessReading, Side
from pipeline.records import Reading, known, missing

AGREEMENT = 0.01
"""Config and measurement count as the same within this share."""


@dataclass(frozen=True)
class CacheSize:
    bytes_per_token: float
    """Of one stream."""
    note: str | None
    """Why it is not what the config says; None when config and measurement agree."""


def kv_bytes_per_token(cache: KvCache) -> CacheSize:
    """2 × layers × KV heads × head dimension × bytes per element, the 2 for keys and values, checked by measurement.

    Source: Databricks 2023, "LLM Inference Performance Engineering: Best Practices" (KV cache size). Where a real
    cache differs by more than 1 %, its size per token is used: a sliding window, a quantized cache, padding.
    """
    config = 2.0 * cache.layers * cache.kv_heads * cache.head_dim * cache.bytes_per_element
    if not cache.measured_tokens:
        return CacheSize(config, "not checked: the measured cache held no token")
    measured = cache.measured_bytes / cache.measured_tokens
    if abs(measured - config) <= AGREEMENT * config:
        return CacheSize(config, None)
    note = f"measured: a cache of {cache.measured_tokens} tokens took {measured:,.0f} bytes each, not {config:,.0f}"
    return CacheSize(measured, f"{note} as the config says")


@dataclass(frozen=True)
class MemoryModel:
    """Peak memory ≈ fixed + slope × tokens in flight, never below a measured peak.

    Tokens in flight are streams × (prompt + output). Beyond `largest_tokens` it is an extrapolation.
    """

    fixed_bytes: float
    slope_bytes: float
    """Per token in flight: its keys and values, and the working memory of its stream."""
    largest_tokens: int
    """The largest size that was measured."""
    cuda_context_bytes: float = 0.0
    """What the process takes besides, which no peak holds; 0 where it is not known, and where the peaks hold it: on a
    CPU, and where they are the driver's."""

    def tokens(self, memory_bytes: float) -> int:
        """Tokens in flight that fit; 0 when not even the model does."""
        room = memory_bytes - self.cuda_context_bytes - self.fixed_bytes
        return max(0, math.floor(room / self.slope_bytes))

    def largest_context(self, users: int, memory_bytes: float, context_length: int) -> int:
        """Prompt and output tokens that each of so many users can have at once, at most the model's own context."""
        return min(self.tokens(memory_bytes) // users, context_length)


def largest_peaks(processes: Iterable[ProcessReading]) -> dict[tuple[str, int], LevelPeak]:
    """The largest known peak of each workload and concurrency over the variant's processes."""
    found: dict[tuple[str, int], LevelPeak] = {}
    for process in processes:
        for peak in process.peaks if process.side is Side.VARIANT else ():
            key = (peak.workload, peak.concurrency)
            if peak.peak_bytes.value is not None and (
                key not in found or peak.peak_bytes.value > (found[key].peak_bytes.value or 0)
            ):
                found[key] = peak
    return found


def peak_bytes(processes: Sequence[ProcessReading], levels: Sequence[tuple[str, int]]) -> Reading:
    """The largest peak over these workloads and concurrencies; missing unless each of them has one.

    A peak over fewer levels would flatter a variant that ran out of memory on the others.
    """
    found = largest_peaks(processes)
    for workload, streams in levels:
        if (workload, streams) not in found:
            return missing(f"no peak of {workload} × {streams}: {_why_no_peak(processes, workload, streams)}")
    peaks = [found[level].peak_bytes for level in levels]
    return max(peaks, key=lambda peak: peak.value or 0.0) if peaks else missing("no workload was run")


def _why_no_peak(processes: Sequence[ProcessReading], workload: str, streams: int) -> str:
    peaks = (peak for process in processes if process.side is Side.VARIANT for peak in process.peaks)
    reasons = (peak.peak_bytes.reason for peak in peaks if (peak.workload, peak.concurrency) == (workload, streams))
    return next((reason for reason in reasons if reason), "it was not answered")


def peaks_by_driver(processes: Iterable[ProcessReading]) -> bool:
    """Whether the variant's peaks are NVML's figure of its process, which holds the CUDA context."""
    return any(process.memory.peaks_by_driver for process in processes if process.side is Side.VARIANT)


def cuda_context_bytes(processes: Iterable[ProcessReading]) -> Reading:
    """Device memory of a process beside the allocator's: NVML's figure - the reserved peak; the largest over processes.

    Both are the most that was seen after any request. Missing where NVML does not tell the memory of the process.
    """
    memory = [process.memory for process in processes if process.side is Side.VARIANT]
    found = [
        each.nvml_process_bytes.value - each.allocator_reserved_peak_bytes.value
        for each in memory
        if each.nvml_process_bytes.value is not None and each.allocator_reserved_peak_bytes.value is not None
    ]
    if found:
        return known(max(0.0, *found))
    reasons = (each.nvml_process_bytes.reason or each.allocator_reserved_peak_bytes.reason for each in memory)
    return missing(next((reason for reason in reasons if reason), "no process was measured to its end"))


def memory_model(processes: Sequence[ProcessReading], kv_bytes: float, cuda_context: float = 0.0) -> MemoryModel | str:
    """A least-squares line through the largest peak of each size, or the reason why there is none.

    The slope is at least the cache's bytes per token: sizes that allocators round up, or that fit into memory taken
    before, look free. The fixed part is then raised until no measured peak lies above the line.
    """
    by_size: dict[int, float] = {}
    for peak in largest_peaks(processes).values():
        by_size[peak.tokens] = max(by_size.get(peak.tokens, 0.0), peak.peak_bytes.value or 0.0)
    if len(by_size) < 2:
        return f"a line through the peaks needs 2 sizes of request, there are {len(by_size)}"
    sizes, peaks = list(by_size), list(by_size.values())
    slope = max(_slope(sizes, peaks), kv_bytes)
    fixed = max(peak - slope * size for size, peak in by_size.items())
    return MemoryModel(fixed, slope, largest_tokens=max(sizes), cuda_context_bytes=cuda_context)


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least squares: Σ(x - x̄)(y - ȳ) / Σ(x - x̄)²."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    across = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / across
