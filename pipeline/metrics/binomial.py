"""Exact intervals of a share and of a percentile: both count how many of n independent readings are on one side.

scipy is imported inside the functions: params.py and the command line reach this module.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from pipeline.metrics.intervals import TAIL
from pipeline.records import Reading, known, missing


def share_interval(hits: float, count: float) -> tuple[float, float]:
    """95 % interval of the share hits / count (Clopper & Pearson 1934, Biometrika 26:404).

    Each end errs in at most 2.5 % of cases however rare the hits are; Wilson's lower end errs more often there. Whole
    numbers are meant; others are taken in between (`more_trials`).
    """
    from scipy.special import betaincinv

    low = float(betaincinv(hits, count - hits + 1, TAIL)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1 - TAIL)) if hits < count else 1.0
    return low, high


def percentile_interval(values: Sequence[float], q: float) -> tuple[Reading, Reading]:
    """95 % interval of the q-quantile, whatever the distribution of the readings, which are taken as independent.

    The readings of rank l and u, of n, where for X binomial with n trials at q P(X < l) ≤ 2.5 % and P(X ≥ u) ≤ 2.5 %,
    as near to each other as that allows (David & Nagaraja 2003, Order Statistics, §7.1). An end is missing, with the
    number of readings that would have it, where there are too few: P95 has an upper end from 72 readings on.
    """
    from scipy.stats import binom

    ordered, count = sorted(values), len(values)
    low, high = int(binom.ppf(TAIL, count, q)), int(binom.ppf(1 - TAIL, count, q)) + 1
    return (
        known(ordered[low - 1]) if low >= 1 else _too_few("lower", q, 1 - q, count),
        known(ordered[high - 1]) if high <= count else _too_few("upper", q, q, count),
    )


def _too_few(end: str, q: float, share: float, count: int) -> Reading:
    """None beyond the outermost of n readings is as likely as share^n, which must be at most 2.5 %."""
    needed = math.ceil(math.log(TAIL) / math.log(share))
    return missing(f"the {end} end of P{100 * q:g} needs {needed} readings, there are {count}")


def more_trials(hits: int, count: int, bound: float, most: int) -> int | None:
    """How many more trials bring the interval off the bound, were the share of hits to stay; None where over `most`.

    The bound lies inside the interval of hits / count.
    """
    share = hits / count

    def cleared(more: int) -> bool:
        low, high = share_interval(share * (count + more), count + more)
        return high <= bound if share < bound else low > bound

    if not cleared(most):
        return None
    return bisect_left(range(most), True, lo=1, key=cleared)
