"""What an interval is over, and how much larger that sample would have to be to clear a bound inside it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pipeline.metrics import pairing, power
from pipeline.metrics.evidence import Compare, VariantEvidence
from pipeline.metrics.intervals import Change
from pipeline.metrics.paired_proportions import null_variance
from pipeline.metrics.paired_tests import CategoryChange
from pipeline.readings import Stop
from pipeline.records import Interval

MANY = 10_000
"""Pairs of processes beyond which no number is given."""
_AT_BOUND = "the value equals the bound, so no number of items is sure to decide it"
_REMEDIES = {
    Stop.BUDGET: "benchmark.pairing.budget_s would have to grow",
    Stop.TIME_LIMIT: "benchmark.timeout_s would have to grow",
    Stop.PRECISE: "benchmark.pairing.half_width would have to shrink",
}


class Sample(Protocol):
    def to_decide(self, value: float, low: float, high: float, bound: float) -> str:
        """How much larger the sample must be for the interval low..high not to hold the bound, were the value to stay.

        In words; `bound` lies inside the interval.
        """


@dataclass(frozen=True)
class Items:
    """Scored items, whose mean score the interval is of."""

    count: int

    def to_decide(self, value: float, low: float, high: float, bound: float) -> str:
        return _items_to_decide(_more(self.count, value, low, high, bound, lambda share: share * (1 - share)))


@dataclass(frozen=True)
class PairedItems:
    """Items scored twice; the interval is of the mean of variant - baseline."""

    count: int
    changed: float
    """Share of the items whose score is another one."""

    def to_decide(self, value: float, low: float, high: float, bound: float) -> str:
        return _items_to_decide(self.more(value, low, high, bound))

    def more(self, value: float, low: float, high: float, bound: float) -> int | None:
        changed = max(self.changed, abs(value))
        variance = partial(null_variance, (changed - value) / 2, (changed + value) / 2)
        return _more(self.count, value, low, high, bound, variance)


@dataclass(frozen=True)
class WorstOfCategories:
    """Items of several categories; the interval is of the lowest of their changes."""

    worst: str
    categories: Mapping[str, tuple[PairedItems, Interval]]

    def to_decide(self, value: float, low: float, high: float, bound: float) -> str:
        """Above the bound, in each category whose own interval reaches below it; below the bound, in the worst one."""
        if bound >= value:
            more = {self.worst: self.categories[self.worst][0].more(value, low, high, bound)}
        else:
            more = {name: _more_to_clear(*found, bound) for name, found in self.categories.items()}
        listed = ", ".join(f"{count:,} of {name}" for name, count in more.items() if count)
        return f"about so many more items would decide it: {listed}" if listed else _AT_BOUND


@dataclass(frozen=True)
class Tokens:
    """Scored tokens of the fidelity text."""

    count: int

    def to_decide(self, value: float, low: float, high: float, bound: float) -> str:
        half = value - low if bound < value else high - value
        # At the rule of three an interval shrinks as 1/n.
        at_floor = math.isclose(half, 3 / self.count)
        more = _more(self.count, value, low, high, bound, lambda mean: abs(mean - value) if at_floor else 1.0)
        if more is None:
            return "the value equals the bound, so no length of text is sure to decide it"
        return f"about {more:,} more tokens of text would decide it (fidelity.tokens would have to grow)"


def _items_to_decide(more: int | None) -> str:
    return _AT_BOUND if more is None else f"about {more:,} more items would decide it"


def _more_to_clear(items: PairedItems, interval: Interval, bound: float) -> int | None:
    """None where the interval lies above the bound."""
    low, high = interval.ci_low.value, interval.ci_high.value
    if low is None or high is None or low >= bound:
        return None
    return items.more(interval.mean, low, high, bound)


def _more(
    count: int,
    value: float,
    low: float,
    high: float,
    bound: float,
    variance: Callable[[float], float],
) -> int | None:
    """How many more are needed for the end of the interval to reach the bound, were the value to stay; None at it.

    `power.items_to_clear` at a power of one half, which is that case. The variance of one item under the bound is what
    the end of the interval, at a distance of h, shows it to be there, n·h² / z², times `variance` at the bound /
    `variance` at the end: how the variance of pass/fail items depends on their mean.
    """
    distance = abs(value - bound)
    if distance == 0:
        return None
    end = low if bound < value else high
    at_end, at_bound = variance(end), variance(bound)
    shown = count * ((value - end) / power.Z) ** 2 * (at_bound / at_end if at_end > 0 else 1)
    needed = power.items_to_clear(distance, shown, shown, power=0.5)
    return max(1, math.ceil(needed - count - 1e-9))


@dataclass(frozen=True)
class ProcessPairs:
    """Pairs of fresh processes, within which variant and baseline took turns."""

    count: int
    stop: Stop | None
    """Why there are no more of them."""

    def to_decide(self, value: float, low: float, high: float, bound: float) -> str:
        """The half-width of the log ratio must shrink to |log(value / bound)|.

        Of k pairs of processes it is t(k - 1) / √k times their spread (`pairing.compare`): few of them gain more from
        another one than 1/√k says.
        """
        distance = abs(math.log(value / bound))
        if distance == 0:
            return "the value equals the bound, so no number of pairs of processes is sure to decide it"
        half = math.log(value / low) if bound < value else math.log(high / value)
        wanted = _width(self.count) * distance / half
        larger = range(self.count + 1, self.count + MANY + 1)
        more = 1 + bisect_left(larger, -wanted, key=lambda count: -_width(count))
        words = f"about {more:,}" if more <= MANY else f"over {MANY:,}"
        remedy = f" ({_REMEDIES[self.stop]})" if self.stop in _REMEDIES else ""
        return f"{words} more {'pair' if more == 1 else 'pairs'} of processes would decide it{remedy}"


def items(evidence: VariantEvidence) -> Sample:
    return Items(evidence.items)


def paired_items(evidence: VariantEvidence) -> Sample:
    changes = [] if isinstance(evidence.paired, str) else [c for part in evidence.paired for c in part.changes()]
    return _paired(changes)


def worst_category(evidence: VariantEvidence) -> Sample:
    found = evidence.worst_category
    if isinstance(found, str):
        return PairedItems(0, 0.0)
    return WorstOfCategories(
        _name(found.worst), {_name(each): (_paired(each.changes), each.interval) for each in found.categories}
    )


def _name(found: CategoryChange) -> str:
    return f"{found.eval_set}/{found.category}"


def _paired(changes: Sequence[Change]) -> PairedItems:
    changed = sum(change.value != 0 for change in changes)
    return PairedItems(len(changes), changed / len(changes) if changes else 0.0)


def tokens(evidence: VariantEvidence) -> Sample:
    return Tokens(sum(block.tokens for block in evidence.fidelity.blocks))


def process_pairs(compare: Compare) -> Callable[[VariantEvidence], Sample]:
    """Those of a ratio on the headline workload."""

    def sample(evidence: VariantEvidence) -> Sample:
        found = evidence.ratio(evidence.headline, compare)
        return ProcessPairs(0 if isinstance(found, str) else found.processes, evidence.speed.stop)

    return sample


def _width(count: int) -> float:
    """Half-width of the interval over so many pairs of processes, in units of the spread between them."""
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, pairing.QUANTILE)) / math.sqrt(count)
