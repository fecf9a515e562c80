"""95 % intervals of scores: of a mean, of a paired difference, and of a weighted sum of either.

scipy is imported inside the functions: params.py and the command line reach this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.quality_records import ItemResult
from pipeline.records import Interval, known, missing

CONFIDENCE = 0.95
RESAMPLES = 9999
_ONE_ITEM = "one item has no interval; at least 2 are needed"


def mean_interval(scores: Sequence[float], seed: int) -> Interval:
    """Mean of item scores (each 0..1) with its 95 % interval.

    - Only 0 and 1: Wilson's score interval (Wilson 1927, JASA 22:209), which stays sensible at 0 and 1.
    - Graded: percentile bootstrap over the items (Efron & Tibshirani 1993, ch. 13) with a fixed seed, never
      narrower than mean ± 3/n (see `difference`), cut to 0..1.
    - One item: the interval is missing.

    Raises:
        ValueError: no scores. A mean of nothing is not 0.
    """
    if not scores:
        raise ValueError("no scores: a mean of nothing is not defined")
    n, mean = len(scores), math.fsum(scores) / len(scores)
    if n < 2:
        return Interval(n=n, mean=mean, ci_low=missing(_ONE_ITEM), ci_high=missing(_ONE_ITEM))
    if all(score in (0, 1) for score in scores):
        from scipy.stats import binomtest

        found = binomtest(round(math.fsum(scores)), n).proportion_ci(CONFIDENCE, method="wilson")
        return Interval(n=n, mean=mean, ci_low=known(float(found.low)), ci_high=known(float(found.high)))
    return _bootstrapped(scores, seed, lowest=0)


def difference(ours: Sequence[ItemResult], theirs: Sequence[ItemResult], seed: int) -> Interval:
    """Mean of our score - their score on the same items, paired by item id, with its 95 % interval.

    Percentile bootstrap over the pairs, never narrower than mean ± 3/n. The floor is the rule of three (Hanley &
    Lippman-Hand 1983, JAMA 249:1743): what did not happen on n items may still happen on a share of up to 3/n of
    all items, and each such item moves the mean by at most 1. Hence two artifacts that answered alike on every
    item have the interval ±3/n, not 0..0, and a few flips do not read as certainty.

    Raises:
        ValueError: the two were not scored on the same items, or on none.
    """
    before = {item.item_id: item.score for item in theirs}
    after = {item.item_id: item.score for item in ours}
    if before.keys() != after.keys() or not after:
        raise ValueError("a paired difference needs the same items on both sides, at least one")
    changes = [after[item_id] - before[item_id] for item_id in sorted(after)]
    if len(changes) < 2:
        return Interval(n=1, mean=changes[0], ci_low=missing(_ONE_ITEM), ci_high=missing(_ONE_ITEM))
    return _bootstrapped(changes, seed, lowest=-1)


def weighted(parts: Sequence[tuple[Interval, float]], lowest: float = 0) -> Interval:
    """Weighted mean of independent means (one per eval set), with its 95 % interval.

    The interval recovers each part's variance from its own interval: with weights w summing to 1 and means m,
    low = Σwm - sqrt(Σ w²(m - l)²), high likewise (MOVER: Zou & Donner 2008, Statistics in Medicine 27:1693).
    For one part it is that part's interval. Missing when it is missing for any part. Cut to lowest..1.

    Raises:
        ValueError: no parts.
    """
    if not parts:
        raise ValueError("no eval sets to combine")
    total = math.fsum(weight for _, weight in parts)
    shares = [(interval, weight / total) for interval, weight in parts]
    n = sum(interval.n for interval, _ in shares)
    mean = math.fsum(share * interval.mean for interval, share in shares)
    below, above = [], []
    for interval, share in shares:
        low, high = interval.ci_low.value, interval.ci_high.value
        if low is None or high is None:
            reason = interval.ci_low.reason or interval.ci_high.reason or ""
            return Interval(n=n, mean=mean, ci_low=missing(reason), ci_high=missing(reason))
        below.append(share * (interval.mean - low))
        above.append(share * (high - interval.mean))
    if len(shares) == 1:
        return shares[0][0]
    return Interval(
        n=n,
        mean=mean,
        ci_low=known(max(lowest, mean - math.hypot(*below))),
        ci_high=known(min(1.0, mean + math.hypot(*above))),
    )


@dataclass(frozen=True)
class Flips:
    """Items whose pass/fail differs between two variants, each as (ours, theirs)."""

    lost: tuple[tuple[ItemResult, ItemResult], ...]
    """They passed, we did not."""
    won: tuple[tuple[ItemResult, ItemResult], ...]
    """We passed, they did not."""


def flips(ours: Sequence[ItemResult], theirs: Sequence[ItemResult]) -> Flips:
    """Items whose pass/fail differs, paired by item id, in our order."""
    before = {item.item_id: item for item in theirs}
    pairs = [(item, before[item.item_id]) for item in ours if item.item_id in before]
    return Flips(
        lost=tuple((mine, other) for mine, other in pairs if other.passed and not mine.passed),
        won=tuple((mine, other) for mine, other in pairs if mine.passed and not other.passed),
    )


def _bootstrapped(values: Sequence[float], seed: int, lowest: float) -> Interval:
    """Percentile bootstrap of the mean, never narrower than mean ± 3/n, cut to lowest..1."""
    import numpy
    from scipy.stats import bootstrap

    n, mean = len(values), math.fsum(values) / len(values)
    low = high = mean
    if len(set(values)) > 1:
        found = bootstrap(
            (numpy.asarray(values, dtype=float),),
            numpy.mean,
            confidence_level=CONFIDENCE,
            n_resamples=RESAMPLES,
            batch=999,
            method="percentile",
            rng=numpy.random.default_rng(seed),
        ).confidence_interval
        low, high = float(found.low), float(found.high)
    floor = 3 / n
    return Interval(
        n=n,
        mean=mean,
        ci_low=known(max(lowest, min(low, mean - floor))),
        ci_high=known(min(1.0, max(high, mean + floor))),
    )
