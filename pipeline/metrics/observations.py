"""Numbers from items that may weigh differently and come in clusters: mean, effective number, bootstrap.

An observation is an item's score, or its change against the baseline. numpy and scipy are imported inside the
functions: params.py and the command line reach this module.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]

RESAMPLES = 9999
ROUNDING = 1e-12
"""Means that differ by less are equal: sums of the same values in another order round differently."""


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
    from scipy.special import ndtr

    level = float(ndtr(_expanded(observed, tail)))
    found = _resampled(_with_added(observed, added), seed, 1 - 2 * level).confidence_interval
    return float(found.low), float(found.high)


def bca(observed: Sequence[Observation], added: Sequence[float], seed: int, tail: float) -> tuple[float, float]:
    """As `bootstrap`, from the same resamples, with percentiles that follow the bias and the skew of the mean.

    Bias-corrected and accelerated (BCa: Efron 1987, Journal of the American Statistical Association 82:171; DiCiccio &
    Efron 1996, Statistical Science 11:189): Φ(z0 + (z0 + z) / (1 - a(z0 + z))) in place of Φ(z), z0 being Φ⁻¹ of the
    share of resampled means below the mean, where equal ones count half, and a the acceleration of `_acceleration`: of
    the observed units alone, for an added one would stand out on the side of which nothing was seen, and hide a skew.
    """
    import numpy
    from scipy.special import ndtri

    drawn = _with_added(observed, added)
    totals, weights = _columns(drawn)
    middle = totals.sum() / weights.sum()
    above = _resampled(drawn, seed).bootstrap_distribution - middle
    below = (numpy.count_nonzero(above < -ROUNDING) + numpy.count_nonzero(above < ROUNDING)) / 2
    bias, acceleration = float(ndtri(below / len(above))), _acceleration(*_columns(units(observed)))
    z = _expanded(observed, tail)
    levels = [_bca_level(each, bias, acceleration) for each in (z, -z)]
    low, high = numpy.quantile(above, levels) + middle
    return float(low), float(high)


def _acceleration(totals: Floats, weights: Floats) -> float:
    """Σ d³ / (6 (Σ d²)^1.5), d: how far the mean without a unit is below the mean of these (Efron 1987).

    0 where no unit moves the mean: nothing then shows a skew.
    """
    import numpy

    without = (totals.sum() - totals) / (weights.sum() - weights)
    below = without.mean() - without
    below[numpy.abs(below) < ROUNDING] = 0
    squares = float((below**2).sum())
    return float((below**3).sum()) / (6 * squares**1.5) if squares else 0.0


def _bca_level(z: float, bias: float, acceleration: float) -> float:
    """Share of the resampled means below the end that would be at Φ(z), 0 to 1.

    Few units and a small tail ask for a z so far out that the denominator is not positive. Its limit is taken then, the
    outermost mean.
    """
    from scipy.special import ndtr

    shifted = bias + z
    scale = 1 - acceleration * shifted
    return float(ndtr(bias + shifted / scale)) if scale > 0 else float(z > 0)


def _expanded(observed: Sequence[Observation], tail: float) -> float:
    """Normal quantile, negative, that is as far out as Student's t asks for; see `bootstrap`."""
    from scipy.special import stdtrit

    count = len(units(observed))
    return float(stdtrit(count - 1, tail)) * math.sqrt(count / (count - 1))


def _with_added(observed: Sequence[Observation], added: Sequence[float]) -> list[Unit]:
    drawn = units(observed)
    per_item = math.fsum(unit.weight for unit in drawn) / len(observed)
    weight = per_item * most_items(observed) / effective_items(observed)
    return drawn + [Unit(weight * value, weight) for value in added]


def _columns(drawn: Sequence[Unit]) -> tuple[Floats, Floats]:
    import numpy

    return numpy.array([unit.total for unit in drawn]), numpy.array([unit.weight for unit in drawn])


def _resampled(drawn: Sequence[Unit], seed: int, confidence: float = 0.95) -> Any:
    """`RESAMPLES` means of as many units as there are, drawn with replacement."""
    import numpy
    from scipy import stats

    return stats.bootstrap(
        _columns(drawn),
        lambda totals, weights, axis: totals.sum(axis=axis) / weights.sum(axis=axis),
        paired=True,
        vectorized=True,
        confidence_level=confidence,
        n_resamples=RESAMPLES,
        batch=999,
        method="percentile",
        rng=numpy.random.default_rng(seed),
    )
