"""Did the variant's answers change for the worse or the better? Tests on the same items, per eval set and category.

numpy and scipy are imported inside the functions: params.py and the command line reach this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.metrics import intervals, observations, power
from pipeline.metrics.intervals import TAIL, Change
from pipeline.metrics.observations import RESAMPLES, Observation
from pipeline.quality_records import ItemResult
from pipeline.records import Interval, Reading, known, missing

_LEAST_UNITS = 2
"""One unit alone is as likely with either sign."""


class PairedTest(StrEnum):
    """What a p-value is from."""

    MCNEMAR = "McNemar, mid-p"
    PERMUTATION = "sign permutation of items"
    CLUSTER_PERMUTATION = "sign permutation of clusters"


@dataclass(frozen=True)
class PairedSet:
    """One eval set as variant and baseline answered it."""

    name: str
    ours: Sequence[ItemResult]
    theirs: Sequence[ItemResult]

    def changes(self, category: str | None = None) -> list[Change]:
        """Of the items of one category; None: of all."""
        ours = [item for item in self.ours if category in (None, item.category)]
        asked = {item.item_id for item in ours}
        return intervals.changes(ours, [item for item in self.theirs if category is None or item.item_id in asked])

    def categories(self) -> list[str]:
        return list(dict.fromkeys(item.category for item in self.ours))


@dataclass(frozen=True)
class Comparison:
    """Variant against baseline on one category, or on a whole set."""

    eval_set: str
    category: str | None
    """None: the whole set."""
    n: int
    lost: int
    """Items the baseline passed and the variant did not."""
    won: int
    delta: Interval
    """Mean of variant - baseline; see `intervals.of_changes`."""
    p: float
    """Two-sided, of no difference."""
    p_holm: float
    """The same, adjusted over all categories of all sets, or over all whole sets."""
    test: PairedTest
    detectable_drop: Reading
    """Smallest drop that a test at 5 % finds here with 80 % probability, at the share of items that changed here; of
    clusters at their effective number of items (`observations.effective_items`)."""


def compare(sets: Sequence[PairedSet], seed: int) -> tuple[Comparison, ...]:
    """Every set as a whole, then every category of every set; the p-values of each family are adjusted by `holm`."""
    whole = [(part, None) for part in sets]
    parts = [(part, category) for part in sets for category in part.categories()]
    return (*_family(whole, seed), *_family(parts, seed))


def _family(parts: Sequence[tuple[PairedSet, str | None]], seed: int) -> Iterator[Comparison]:
    changes = [part.changes(category) for part, category in parts]
    found = [p_value(each, seed) for each in changes]
    adjusted = holm([p for p, _ in found])
    for (part, category), each, (p, test), p_holm in zip(parts, changes, found, adjusted, strict=True):
        lost, won = _flips(each)
        yield Comparison(
            eval_set=part.name,
            category=category,
            n=len(each),
            lost=lost,
            won=won,
            delta=intervals.of_changes(each, seed),
            p=p,
            p_holm=p_holm,
            test=test,
            detectable_drop=_detectable_drop(each, (lost + won) / len(each)),
        )


@dataclass(frozen=True)
class CategoryChange:
    """How one category changed."""

    eval_set: str
    category: str
    changes: Sequence[Change]
    interval: Interval
    """See `intervals.of_changes`."""


@dataclass(frozen=True)
class WorstCategory:
    """The category with the lowest mean change, among all."""

    worst: CategoryChange
    interval: Interval
    """Of the lowest of all categories' true changes, not of this category's alone."""
    categories: tuple[CategoryChange, ...]
    """All that were compared."""


def worst_category(sets: Sequence[PairedSet], seed: int) -> WorstCategory:
    """The lowest mean change of any category, with the 95 % interval of the lowest true change.

    - Low: the lowest of the categories' low ends. That no category lost more is wrong in at most 2.5 % of cases, since
      it takes that of each category (intersection-union: Berger 1982, Technometrics 24:295).
    - High: the lowest of the categories' high ends, each taken at 2.5 % / categories (Bonferroni), for the lowest of
      several is low by luck alone.

    Categories of one item or cluster have no interval and are left out, where there are others.

    Raises:
        ValueError: there is no item.
    """
    every = [_category_change(part, name, seed) for part in sets for name in part.categories()]
    if not every:
        raise ValueError("no items, so there is no worst category")
    compared = [each for each in every if each.interval.ci_low.value is not None] or every
    worst = min(compared, key=lambda each: each.interval.mean)
    lows = [each.interval.ci_low for each in compared]
    highs = [intervals.of_changes(each.changes, seed, TAIL / len(compared)).ci_high for each in compared]
    interval = worst.interval.model_copy(update={"ci_low": _lowest(lows), "ci_high": _lowest(highs)})
    return WorstCategory(worst, interval, tuple(compared))


def _category_change(part: PairedSet, category: str, seed: int) -> CategoryChange:
    changes = part.changes(category)
    return CategoryChange(part.name, category, changes, intervals.of_changes(changes, seed))


def _lowest(readings: Sequence[Reading]) -> Reading:
    return min(readings, key=lambda reading: math.inf if reading.value is None else reading.value)


def p_value(changes: Sequence[Change], seed: int) -> tuple[float, PairedTest]:
    """Two-sided p-value of no difference, and the test it is from.

    - Pass/fail items that stand alone and weigh the same: McNemar's mid-p.
    - Else the permutation test: were there no difference, each item's change, or each cluster's sum of them, would be
      as likely with the other sign (Fisher 1935, The Design of Experiments, §21). All signs are tried where that takes
      at most `RESAMPLES` tries, else so many at random, with a fixed seed.
    """
    observed, clustered = [change.observed for change in changes], intervals.are_clustered(changes)
    alike = len({each.weight for each in observed}) == 1
    if intervals.are_whole(changes) and alike and not clustered:
        return mcnemar_mid_p(*_flips(changes)), PairedTest.MCNEMAR
    return _permutation(observed, seed), PairedTest.CLUSTER_PERMUTATION if clustered else PairedTest.PERMUTATION


def mcnemar_mid_p(lost: int, won: int) -> float:
    """Two-sided mid-p of McNemar's test: the exact one less the chance of just this split of lost and won items.

    2·P(X < min) + P(X = min) for X binomial with lost + won trials at 1/2 (Fagerland, Lydersen & Laake 2013, BMC
    Medical Research Methodology 13:91), which there keeps to 5 % where the exact test is far below. 1 without any flip.
    """
    from scipy.stats import binom

    fewer, flips = min(lost, won), lost + won
    if not flips:
        return 1.0
    if lost == won:
        return float(1 - binom.pmf(fewer, flips, 0.5) / 2)
    return min(1.0, float(2 * binom.cdf(fewer, flips, 0.5) - binom.pmf(fewer, flips, 0.5)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted so that any of them is wrongly below 5 % in at most 5 % of cases (Holm 1979, Scand. J. Statist. 6:65).

    The i-th smallest of m, times m - i + 1, at least the one before it, at most 1; in the order given.
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _permutation(observed: Sequence[Observation], seed: int) -> float:
    """Of the sum over units. Units that did not change, or whose changes cancel, have no sign and are left out."""
    import numpy
    from scipy.stats import permutation_test

    totals = [unit.total for unit in observations.units(observed) if unit.total]
    if len(totals) < _LEAST_UNITS:
        return 1.0
    found = permutation_test(
        (numpy.array(totals),),
        lambda drawn, axis: drawn.sum(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=999,
        rng=numpy.random.default_rng(seed),
    )
    return float(found.pvalue)


def _detectable_drop(changes: Sequence[Change], discordant: float) -> Reading:
    items = observations.effective_items([change.observed for change in changes])
    try:
        return known(power.detectable_drop(items, discordant))
    except ValueError as error:
        return missing(str(error))


def _flips(changes: Sequence[Change]) -> tuple[int, int]:
    return sum(change.lost for change in changes), sum(change.won for change in changes)
