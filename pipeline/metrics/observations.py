"""Numbers from items that may weigh differently and come in clusters: mean, effective number, bootstrap.

An observation is an item's score, or its change against the baseline. numpy and scipy are imported inside the
functions: params.py and the command line reach this module.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 9999


@dataclass(frozen=True)
class Observation:
    value: float
    weight: float
    unit: str
    """What was drawn: the item's cluster, or the item itself where it stands alone."""


@dataclass(frozen=True)
class Unit:
    """The items of one cluster, or one item."""

    total: float
    """Σ weight × value."""
    weight: float
    """Σ weight."""


def mean(observed: Sequence[Observation]) -> float:
    """Σ weight × value / Σ weight."""
    total = math.fsum(each.weight * each.value for each in observed)
    return total / math.fsum(each.weight for each in observed)


def units(observed: Sequence[Observation]) -> list[Unit]:
    grouped: defaultdict[str, list[Observation]] = defaultdict(list)
    for each in observed:
        grouped[each.unit].append(each)
    return [
        Unit(math.fsum(each.weight * each.value for each in found), math.fsum(each.weight for each in found))
        for found in grouped.values()
    ]


def most_items(observed: Sequence[Observation]) -> float:
    """How many items of equal weight would tell as much, were each drawn by itself: (Σ weight)² / Σ weight² (Kish)."""
    return _kish([each.weight for each in observed])


def _kish(weights: Sequence[float]) -> float:
    return math.fsum(weights) ** 2 / math.fsum(weight**2 for weight in weights)


def effective_items(observed: Sequence[Observation]) -> float:
    """How many items of equal weight, each drawn by itself, tell as much as these.

    Variance of a value / variance of the mean, the latter summed over the units drawn: their number over the design
    effect (Kish 1965, Survey Sampling). At most `most_items`, so that clusters whose items differ by luck do not
    count for more than their items. A single cluster counts as 1. Where all values are equal nothing shows how alike
    the items of a cluster are, so each cluster counts as one item: (Σ weight)² / Σ weight² over clusters.
    """
    drawn = units(observed)
    if len(drawn) == 1:
        return 1.0
    if len({each.value for each in observed}) == 1:
        return _kish([unit.weight for unit in drawn])
    whole, middle = math.fsum(unit.weight for unit in drawn), mean(observed)
    of_value = math.fsum(each.weight * (each.value - middle) ** 2 for each in observed) / whole
    of_mean = math.fsum((unit.total - middle * unit.weight) ** 2 for unit in drawn) / whole**2
    # Of few units the squares are too small by the share that estimating the mean takes away.
    of_mean *= len(drawn) * (len(observed) - 1) / (len(observed) * (len(drawn) - 1))
    most = most_items(observed)
    return min(most, of_value / of_mean) if of_mean > 0 else most


def quantile(observed: Sequence[Observation], tail: float) -> float:
    """Of the normal distribution where every item is drawn by itself, else Student's t of clusters - 1."""
    from scipy.special import ndtri, stdtrit

    drawn = len(units(observed))
    return float(-ndtri(tail) if drawn == len(observed) else -stdtrit(drawn - 1, tail))


def bootstrap(observed: Sequence[Observation], added: Sequence[float], seed: int, tail: float) -> tuple[float, float]:
    """Ends of the interval of the mean by resampling the units; each end errs with probability `tail`.

    Percentile bootstrap (Efron & Tibshirani 1993, ch. 13) of the ratio Σ weight × value / Σ weight, over whole clusters
    (Davison & Hinkley 1997, §3.8), at percentiles that are as far out as Student's t asks for with so few units
    (Hesterberg 2015, The American Statistician 69:371, "expanded percentile interval").

    Args:
        added: values of items that were not observed but are resampled with the others. Each weighs as an item does on
            average, times the clusters' design effect: where items of a cluster go together, so would unseen ones.
    """
    import numpy
    from scipy import stats
    from scipy.special import ndtr, stdtrit

    drawn = units(observed)
    count, per_item = len(drawn), math.fsum(unit.weight for unit in drawn) / len(observed)
    weight = per_item * most_items(observed) / effective_items(observed)
    drawn += [Unit(weight * value, weight) for value in added]
    expanded = float(ndtr(stdtrit(count - 1, tail) * math.sqrt(count / (count - 1))))
    found = stats.bootstrap(
        (numpy.array([unit.total for unit in drawn]), numpy.array([unit.weight for unit in drawn])),
        lambda totals, weights, axis: totals.sum(axis=axis) / weights.sum(axis=axis),
        paired=True,
        vectorized=True,
        confidence_level=1 - 2 * expanded,
        n_resamples=RESAMPLES,
        batch=999,
        method="percentile",
        rng=numpy.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)
