"""95 % intervals of scores: of a mean, of a paired difference, and of a weighted sum of either.

Items count by their weight, and items of one cluster (a document, a conversation) are drawn together. docs/metrics.md
says what a simulation showed. scipy is imported inside the functions: params.py and the command line reach this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.metrics import observations, paired_proportions
from pipeline.metrics.observations import Observation
from pipeline.quality_records import ItemResult
from pipeline.records import Interval, known, missing

CONFIDENCE = 0.95
TAIL = (1 - CONFIDENCE) / 2
"""Chance that one end of an interval is on the wrong side."""
_ONE_ITEM = "one item has no interval; at least 2 are needed"
_ONE_CLUSTER = "all items are of one document or conversation; an interval needs at least 2 of them"


def scores(results: Sequence[ItemResult]) -> list[Observation]:
    return [Observation(item.score, item.weight, _unit(item)) for item in results]


def mean_interval(results: Sequence[ItemResult], seed: int) -> Interval:
    """Mean score of the items with its 95 % interval; see `of_scores`.

    Raises:
        ValueError: no results. A mean of nothing is not 0.
    """
    return of_scores(scores(results), seed)


def of_scores(observed: Sequence[Observation], seed: int) -> Interval:
    """Mean of scores (each 0..1), Σ weight × score / Σ weight, with its 95 % interval.

    - Only 0 and 1: Wilson's score interval (Wilson 1927, JASA 22:209), which stays sensible at 0 and 1; where items
      are clustered or weigh differently, with the effective number of items and Student's t (Dean & Pagano 2015,
      Journal of Survey Statistics and Methodology 3:484).
    - Graded: bootstrap over the items or clusters, with a 0 and a 1 added so that scores which are all alike do not
      read as certainty. Only there does the seed matter.
    - One item, or one cluster: the interval is missing.

    Raises:
        ValueError: no scores. A mean of nothing is not 0.
    """
    if not observed:
        raise ValueError("no scores: a mean of nothing is not defined")
    refused = _no_interval(observed)
    if refused:
        return refused
    if all(each.value in (0, 1) for each in observed):
        ends = _wilson(observed, TAIL)
    else:
        ends = observations.bootstrap(observed, (0, 1), seed, TAIL)
    return _interval(observed, ends)


@dataclass(frozen=True)
class Change:
    """One item, variant against baseline."""

    observed: Observation
    """Variant's score - baseline's."""
    lost: bool
    """The baseline passed, the variant did not."""
    won: bool

    @property
    def value(self) -> float:
        return self.observed.value


def changes(ours: Sequence[ItemResult], theirs: Sequence[ItemResult]) -> list[Change]:
    """Every item's change, paired by item id, sorted by it.

    Raises:
        ValueError: the two were not scored on the same items, or on none.
    """
    before = {item.item_id: item for item in theirs}
    after = {item.item_id: item for item in ours}
    if before.keys() != after.keys() or not after:
        raise ValueError("a paired difference needs the same items on both sides, at least one")
    return [_change(after[item_id], before[item_id]) for item_id in sorted(after)]


def difference(ours: Sequence[ItemResult], theirs: Sequence[ItemResult], seed: int) -> Interval:
    """Mean of our score - their score on the same items with its 95 % interval; see `of_changes`.

    Raises:
        ValueError: the two were not scored on the same items, or on none.
    """
    return of_changes(changes(ours, theirs), seed)


def of_changes(found: Sequence[Change], seed: int, tail: float = TAIL) -> Interval:
    """Mean change, Σ weight × change / Σ weight, with its interval; each end errs with probability `tail`.

    - Changes of whole items only: Tango's score interval (1998, Statistics in Medicine 17:891), where items are
      clustered or weigh differently with the effective number of items and Student's t. It has a width where nothing
      differed: ± z² / (n + z²), 3.7 points at 100 items.
    - Graded: BCa bootstrap over the items or clusters, which follows the skew of changes that are mostly losses, with
      one item added that gained and one that lost (for pass/fail that is Bonett & Price 2012, Journal of Educational
      and Behavioral Statistics 37:479). They change by the root mean square of the changes that there are and one of 1,
      so few small changes do not read as certainty.
    - One item, or one cluster: the interval is missing.
    """
    observed = [change.observed for change in found]
    refused = _no_interval(observed)
    if refused:
        return refused
    if are_whole(found):
        ends = _tango(observed, tail)
    else:
        size = _pseudo_change(found)
        ends = observations.bca(observed, (size, -size), seed, tail)
    return _interval(observed, ends)


def are_whole(found: Sequence[Change]) -> bool:
    """Every item changed from 0 to 1, from 1 to 0, or not."""
    return all(change.value in (-1, 0, 1) for change in found)


def are_clustered(found: Sequence[Change]) -> bool:
    """Some items share a document or a conversation."""
    return len({change.observed.unit for change in found}) < len(found)


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


def _change(ours: ItemResult, theirs: ItemResult) -> Change:
    observed = Observation(ours.score - theirs.score, ours.weight, _unit(ours))
    return Change(observed, lost=theirs.passed and not ours.passed, won=ours.passed and not theirs.passed)


def _unit(item: ItemResult) -> str:
    return f"item {item.item_id}" if item.cluster is None else f"cluster {item.cluster}"


def _no_interval(observed: Sequence[Observation]) -> Interval | None:
    """The mean without an interval, where there is none."""
    reason = _ONE_ITEM if len(observed) < 2 else _ONE_CLUSTER if len(observations.units(observed)) < 2 else None
    if reason is None:
        return None
    mean = observations.mean(observed)
    return Interval(n=len(observed), mean=mean, ci_low=missing(reason), ci_high=missing(reason))


def _interval(observed: Sequence[Observation], ends: tuple[float, float]) -> Interval:
    """Added items pull the middle of an interval, but never so far that it leaves out the mean."""
    mean = observations.mean(observed)
    low, high = min(ends[0], mean), max(ends[1], mean)
    return Interval(n=len(observed), mean=mean, ci_low=known(low), ci_high=known(high))


def _wilson(observed: Sequence[Observation], tail: float) -> tuple[float, float]:
    """(p + q²/2n ± q·√(p(1-p)/n + q²/4n²)) / (1 + q²/n) for the share p that passed, the quantile q, n items."""
    share, n = observations.mean(observed), observations.effective_items(observed)
    square = observations.quantile(observed, tail) ** 2 / n
    middle = (share + square / 2) / (1 + square)
    half = math.sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def _tango(observed: Sequence[Observation], tail: float) -> tuple[float, float]:
    whole = math.fsum(each.weight for each in observed)
    lost = math.fsum(each.weight for each in observed if each.value < 0) / whole
    won = math.fsum(each.weight for each in observed if each.value > 0) / whole
    n, quantile = observations.effective_items(observed), observations.quantile(observed, tail)
    return paired_proportions.score_interval(lost, won, n, quantile)


def _pseudo_change(found: Sequence[Change]) -> float:
    squares = [change.value**2 for change in found if change.value]
    return math.sqrt((1 + math.fsum(squares)) / (1 + len(squares)))
