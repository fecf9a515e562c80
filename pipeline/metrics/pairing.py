"""Variant against baseline, measured in alternation: the ratio of a quantity with its 95 % interval.

Pairs are nested in pairs of fresh processes, since two processes of the same model differ by some per cent.
numpy and scipy are imported inside the functions: params.py and the command line reach this module.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.metrics import latency
from pipeline.readings import PairReading, RequestReading
from pipeline.records import Reading, known, missing

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

MIN_PROCESSES = 3
RESAMPLES = 2000
QUANTILE = 0.98
"""Of Student's t on each side. 0.975 would do for a fixed number of processes; measuring stops as soon as the interval
is narrow, which favours samples that happen to agree, and this gives back what that costs (docs/metrics.md)."""
PROCESS_SPREAD = 0.01
"""Standard deviation of the ratio between pairs of processes that is assumed at the least: two processes of one model
differ by 1 to 7 %, so where three pairs agree better than that, it is luck."""

Quantity = Callable[[RequestReading], float | None]
"""From one side's reading to a positive number, or None where there is none."""


@dataclass(frozen=True)
class Speedup:
    """A ratio variant / baseline over the pairs of one workload."""

    processes: int
    """Pairs of processes with at least one complete pair."""
    pairs: int
    """Complete pairs."""
    ratio: float
    """Median over all pairs of variant / baseline."""
    low: Reading
    """Ends of the 95 % interval; missing with fewer than three pairs of processes."""
    high: Reading

    def half_width(self) -> Reading:
        """Distance from the ratio to the farther end of the interval, as a share of the ratio."""
        if self.low.value is None or self.high.value is None:
            return missing(self.low.reason or self.high.reason or "there is no interval")
        return known(max(self.high.value - self.ratio, self.ratio - self.low.value) / self.ratio)


def decode_speedup(pairs: Sequence[PairReading], seed: int) -> Speedup | str:
    """Decode rate of the variant / the baseline's = baseline TPOT / variant TPOT, or the reason why there is none."""
    return compare(pairs, _decode_rate, seed)


def first_token_speedup(pairs: Sequence[PairReading], seed: int) -> Speedup | str:
    """Baseline TTFT / variant TTFT: above 1 the variant answers sooner."""
    return compare(pairs, _first_token_rate, seed)


def aggregate_speedup(pairs: Sequence[PairReading], seed: int) -> Speedup | str:
    """Aggregate tokens/s of the variant / the baseline's; both have the same concurrency, so it cancels."""
    return compare(pairs, _end_to_end_rate, seed)


def decode_cost_ratio(pairs: Sequence[PairReading], seed: int) -> Speedup | str:
    """Cost of a decoded token of the variant / the baseline's: below 1 the variant is cheaper.

    The cost is device time between events on CUDA, CPU time of all threads on a CPU. Beside other work it is steadier
    than the wall clock over many pairs, but not immune: a process that waits for a core spends no CPU time, while those
    of its threads that have one may spin at a barrier; and device time holds the gaps between kernel launches.
    """
    on_cuda = any(pair.variant.device_s for pair in pairs)
    return compare(pairs, latency.decode_device_s if on_cuda else latency.decode_cpu_s, seed)


def compare(pairs: Sequence[PairReading], quantity: Quantity, seed: int) -> Speedup | str:
    """The variant's quantity / the baseline's: median over all complete pairs, with its 95 % interval.

    The interval is ratio × exp(± t × √(k / (k - 1)) × s) for k pairs of processes, where
    - s is the standard error of the median log ratio by a hierarchical bootstrap: processes are drawn with
      replacement, then of each as many of its pairs (Davison & Hinkley 1997, *Bootstrap Methods and their
      Application*, §3.8; Kalibera & Jones 2013, *Rigorous benchmarking in reasonable time*, ISMM). Drawing at both
      levels counts the spread of the pairs twice, which errs on the wide side;
    - √(k / (k - 1)) undoes the narrowness of a bootstrap over few units, and t is Student's with k - 1 degrees of
      freedom (Hesterberg 2015, *The American Statistician* 69:371). Percentiles of the bootstrap itself would cover
      the truth in at most 75 % of cases with three processes: they cannot leave the range of the three.
    - s is at least `PROCESS_SPREAD` / √k.

    Returns the reason where no pair is complete. The same pairs and seed give the same interval, whatever their order.
    """
    by_process = _log_ratios(pairs, quantity)
    logs = [log for group in by_process for log in group]
    if not logs:
        return "no turn has a reading of both variant and baseline"
    ratio = math.exp(statistics.median(logs))
    low, high = _interval(ratio, by_process, seed)
    return Speedup(processes=len(by_process), pairs=len(logs), ratio=ratio, low=low, high=high)


def _decode_rate(request: RequestReading) -> float | None:
    return latency.decode_tokens_per_s(request) if latency.decodes(request) else None


def _first_token_rate(request: RequestReading) -> float | None:
    return 1 / latency.ttft_s(request) if request.token_s and request.token_s[0] > 0 else None


def _end_to_end_rate(request: RequestReading) -> float | None:
    ended = request.token_s and request.token_s[-1] > 0
    return latency.end_to_end_tokens_per_s(request) if ended else None


def _log_ratios(pairs: Sequence[PairReading], quantity: Quantity) -> list[list[float]]:
    """log(variant / baseline) of the complete pairs, sorted, by process; processes without one are left out."""
    found: dict[int, list[float]] = {}
    for pair in pairs:
        ours = quantity(pair.variant)
        theirs = quantity(pair.baseline) if pair.baseline is not None else None
        if ours is not None and theirs is not None:
            found.setdefault(pair.process, []).append(math.log(ours / theirs))
    return [sorted(found[process]) for process in sorted(found)]


def _interval(ratio: float, by_process: Sequence[Sequence[float]], seed: int) -> tuple[Reading, Reading]:
    count = len(by_process)
    if count < MIN_PROCESSES:
        few = missing(f"an interval needs {MIN_PROCESSES} pairs of processes, there are {count}")
        return few, few
    import numpy
    from scipy.special import stdtrit

    bootstrapped = float(numpy.std(_resampled_medians(by_process, seed))) * math.sqrt(count / (count - 1))
    error = max(bootstrapped, PROCESS_SPREAD / math.sqrt(count))
    factor = math.exp(float(stdtrit(count - 1, QUANTILE)) * error)
    return known(ratio / factor), known(ratio * factor)


def _resampled_medians(by_process: Sequence[Sequence[float]], seed: int) -> NDArray[float64]:
    """Medians over all pairs of `RESAMPLES` draws of processes, and of as many pairs of each as it has."""
    import numpy

    rng = numpy.random.default_rng(seed)
    sizes = numpy.array([len(group) for group in by_process])
    widest = int(sizes.max())
    padded = numpy.array([[*group, *[math.nan] * (widest - len(group))] for group in by_process])
    processes = rng.integers(0, len(by_process), (RESAMPLES, len(by_process)))
    drawn_sizes = sizes[processes][:, :, numpy.newaxis]
    places = (rng.random((RESAMPLES, len(by_process), widest)) * drawn_sizes).astype(int)
    drawn = padded[processes[:, :, numpy.newaxis], places]
    drawn[numpy.arange(widest) >= drawn_sizes] = math.nan
    # Sorting puts the padding last; numpy's own nanmedian takes a hundred times as long on short rows.
    ordered = numpy.sort(drawn.reshape(RESAMPLES, -1), axis=1)
    counts = drawn_sizes.sum(axis=(1, 2))
    rows = numpy.arange(RESAMPLES)
    medians: NDArray[float64] = (ordered[rows, (counts - 1) // 2] + ordered[rows, counts // 2]) / 2
    return medians
