"""How many items a question about a difference of pass rates takes, and what so many items can tell.

Everything is for the two-sided 95 % interval, so an end of it errs in 2.5 % of cases. `discordant` is the share of
items that change between pass and fail, either way. statistics.NormalDist serves, so that scipy need not be loaded.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from pipeline.metrics.paired_proportions import null_variance

Z = NormalDist().inv_cdf(0.975)
"""From the middle of a normal distribution to where the upper 2.5 % begin."""
_LARGEST_DROP = 1.0


def items_to_clear(distance: float, null_variance: float, variance: float, power: float) -> float:
    """Items with which the interval of a mean leaves a value out with this probability.

    n = (z(0.975)·√V0 + z(power)·√V)² / distance² (Lachin 1981, Controlled Clinical Trials 2:93, eq. 1).

    Args:
        distance: of the true mean from the value, above 0.
        null_variance: V0, of one item were the value the true mean.
        variance: V, of one item as it truly is.
    """
    total = Z * math.sqrt(null_variance) + NormalDist().inv_cdf(power) * math.sqrt(variance)
    return (total / distance) ** 2


def items_needed(margin: float, discordant: float, power: float = 0.8, design_effect: float = 1.0) -> int:
    """Items with which a gate "drop at most `margin`" passes with this probability when there is no drop at all.

    `items_to_clear` with the variance of Tango's interval at a drop of `margin` as V0 (Nam 1997, Biometrics 53:1422;
    Liu et al. 2002, Statistics in Medicine 21:231) and V = `discordant`; times `design_effect`.

    Raises:
        ValueError: an argument out of its range.
    """
    _within("margin", margin, 0 < margin < 1, "above 0 and below 1")
    _check(discordant, power, design_effect)
    at_margin = null_variance(discordant / 2, discordant / 2, -margin)
    return math.ceil(design_effect * items_to_clear(margin, at_margin, discordant, power) - 1e-9)


def detectable_drop(n: float, discordant: float, power: float = 0.8, design_effect: float = 1.0) -> float:
    """Smallest drop, as a share, that McNemar's test at 5 % (two-sided) finds on n items with this probability.

    The root d of n·d² = design_effect × (z(0.975)·√ψ + z(power)·√(ψ - d²))² (Connor 1987, Biometrics 43:207), where ψ
    is `discordant`, or d where that is larger: a drop of d makes at least that share of items change.

    Raises:
        ValueError: an argument out of its range, or so few items that no drop is found, not even of everything.
    """
    _check(discordant, power, design_effect)
    from scipy.optimize import brentq

    def lacking(drop: float) -> float:
        changed = max(discordant, drop)
        return items_to_clear(drop, changed, max(0.0, changed - drop * drop), power) - n / design_effect

    if lacking(_LARGEST_DROP) > 0:
        least = math.ceil(design_effect * items_to_clear(1, 1, 0, power))
        raise ValueError(f"n is {n:g}: a test at 5 % finds no drop with fewer than {least} items")
    return float(brentq(lacking, 1e-9, _LARGEST_DROP))


def design_effect(cluster_size: float, icc: float) -> float:
    """How many times more items are needed when they come in clusters: 1 + (m - 1)·ICC (Kish 1965).

    Args:
        cluster_size: items of one document or conversation, on average.
        icc: intraclass correlation of what is measured, i.e. of the items' changes for a difference.
    """
    return 1 + (cluster_size - 1) * icc


def _check(discordant: float, power: float, design_effect: float) -> None:
    _within("discordant", discordant, 0 <= discordant <= 1, "from 0 to 1")
    _within("power", power, 0.5 <= power < 1, "from 0.5 and below 1")
    _within("design_effect", design_effect, design_effect > 0, "above 0")


def _within(name: str, given: float, met: bool, allowed: str) -> None:
    if not met:
        raise ValueError(f"{name} is {given:g}; it must be {allowed}")
