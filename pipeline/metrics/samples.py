"""What an interval is over, and how much larger that sample would have to be to clear a bound inside it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pipeline.metrics import binomial, failures, pairing, power, request_times
from pipeline.metrics.evidence import Compare, VariantEvidence
from pipeline.metrics.intervals import Change
from pipeline.metrics.paired_proportions import null_variance
from pipeline.metrics.paired_tests import CategoryChange
from pipeline.metrics.request_times import Times
from pipeline.readings import Stop
from pipeline.records import Interval, MoreOf

PRACTICAL = 20
"""As many times the present sample may be asked for. Beyond, the value lies so near the bound that the number is mostly
chance: an interval of a twentieth of the width decides half of such cases the other way."""
_SAME = 1e-12
"""Values that are this near to each other differ by rounding."""
_REMEDIES = {
    None: "benchmark.pairing.processes would have to grow",
    Stop.BUDGET: "benchmark.pairing.budget_s would have to grow",
    Stop.TIME_LIMIT: "benchmark.timeout_s would have to grow",
    Stop.PRECISE: "benchmark.pairing.half_width would have to shrink",
}


@dataclass(frozen=True)
class Need:
    """What would decide."""

    of: MoreOf
    more: int | None
    """None: no practical number."""
    words: str
    """E.g. `about 78 more items would decide it`; empty where no practical number would."""


class Sample(Protocol):
    def to_decide(self, value: float, low: float, high: float, bound: float) -> Need:
        """How much larger the sample must be for the interval low..high not to hold the bound, were the value to stay.

        `bound` lies inside the interval. An end that is not known is infinite.
        """


@dataclass(frozen=True)
class Items:
    """Scored items, whose mean score the interval is of."""

    count: int

    def to_decide(self, value: float, low: float, high: float, bound: float) -> Need:
        return _of_items(_more(self.count, value, low, high, bound, lambda share: share * (1 - share)))


@dataclass(frozen=True)
class PairedItems:
    """Items scored twice; the interval is of the mean of variant - baseline."""

    count: int
    changed: float
    """Share of the items whose score is another one."""

    def to_decide(self, value: float, low: float, high: float, bound: float) -> Need:
        return _of_items(self.more(value, low, high, bound))

    def more(self, value: float, low: float, high: float, bound: float) -> int | None:
        changed = max(self.changed, abs(value))
        variance = partial(null_variance, (changed - value) / 2, (changed + value) / 2)
        return _more(self.count, value, low, high, bound, variance)


@dataclass(frozen=True)
class WorstOfCategories:
    """Items of several categories; the interval is of the lowest of their changes."""

    worst: str
    categories: Mapping[str, tuple[PairedItems, Interval]]

    def to_decide(self, value: float, low: float, high: float, bound: float) -> Need:
        """Above the bound, in each category whose own interval reaches below it; below the bound, in the worst one."""
        if bound >= value:
            more = {self.worst: self.categories[self.worst][0].more(value, low, high, bound)}
        else:
            reaching = {name: found for name, found in self.categories.items() if _reaches_below(found[1], bound)}
            more = {name: _more_to_clear(*found, bound) for name, found in reaching.items()}
        counts = [count for count in more.values() if count is not None]
        if not counts or len(counts) < len(more):
            return Need(MoreOf.ITEMS, None, "")
        listed = ", ".join(f"{count:,} of {name}" for name, count in more.items())
        return Need(MoreOf.ITEMS, sum(counts), f"about so many more items would decide it: {listed}")


@dataclass(frozen=True)
class Tokens:
    """Scored tokens of the fidelity text."""

    count: int

    def to_decide(self, value: float, low: float, high: float, bound: float) -> Need:
        half = value - low if bound < value else high - value
        # At the rule of three an interval shrinks as 1/n.
        at_floor = math.isclose(half, 3 / self.count)
        more = _more(self.count, value, low, high, bound, lambda mean: abs(mean - value) if at_floor else 1.0)
        more_of = "more tokens of text would decide it (fidelity.tokens would have to grow)"
        return Need(MoreOf.TOKENS, more, "" if more is None else f"about {more:,} {more_of}")


@dataclass(frozen=True)
class Trials:
    """Requests that were answered or failed; the interval is of the share that failed."""

    failed: int
    count: int

    def to_decide(self, value: float, low: float, high: float, bound: float) -> Need:
        more = _more_trials(self.failed, self.count, bound)
        return Need(MoreOf.REQUESTS, more, "" if more is None else f"about {more:,} more requests would decide it")


@dataclass(frozen=True)
class Timings:
    """Requests of one workload; the interval is of a percentile of their times."""

    seconds: tuple[float, ...]
    percent: int
    processes: int
    """Pairs of processes that they were measured in."""

    def to_decide(self, value: float, low: float, high: float, bound: float) -> Need:
        """A percentile lies below the bound where the share of all requests that lie above it is small enough."""
        count = len(self.seconds)
        above = sum(each > bound for each in self.seconds)
        more = _more_trials(above, count, 1 - self.percent / 100)
        if more is None:
            return Need(MoreOf.REQUESTS, None, "")
        turns = request_times.turns(count + more, self.processes)
        return Need(MoreOf.REQUESTS, more, f"about {more:,} more requests would decide it ({turns})")


def _more_trials(hits: int, count: int, bound: float) -> int | None:
    return binomial.more_trials(hits, count, bound, PRACTICAL * count) if hits / count != bound else None


def _of_items(more: int | None) -> Need:
    return Need(MoreOf.ITEMS, more, "" if more is None else f"about {more:,} more items would decide it")


def _reaches_below(interval: Interval, bound: float) -> bool:
    return interval.ci_low.value is not None and interval.ci_low.value < bound


def _more_to_clear(items: PairedItems, interval: Interval, bound: float) -> int | None:
    low, high = interval.ci_low.value, interval.ci_high.value
    assert low is not None, "asked only of those that reach below the bound"
    assert high is not None, "there are both ends or none"
    return items.more(interval.mean, low, high, bound)


def _more(
    count: int,
    value: float,
    low: float,
    high: float,
    bound: float,
    variance: Callable[[float], float],
) -> int | None:
    """How many more are needed for the end of the interval to reach the bound, were the value to stay.

    None at the bound, and where they are more than `PRACTICAL` times those that there are.

    `power.items_to_clear` at a power of one half, which is that case. The variance of one item under the bound is what
    the end of the interval, at a distance of h, shows it to be there, n·h² / z², times `variance` at the bound /
    `variance` at the end: how the variance of pass/fail items depends on their mean.
    """
    if math.isclose(value, bound, abs_tol=_SAME):
        return None
    distance = abs(value - bound)
    end = low if bound < value else high
    at_end, at_bound = variance(end), variance(bound)
    shown = count * ((value - end) / power.Z) ** 2 * (at_bound / at_end if at_end > 0 else 1)
    needed = power.items_to_clear(distance, shown, shown, power=0.5)
    more = max(1, math.ceil(needed - count - 1e-9))
    return more if more <= PRACTICAL * count else None


@dataclass(frozen=True)
class ProcessPairs:
    """Pairs of fresh processes, within which variant and baseline took turns."""

    count: int
    stop: Stop | None
    """Why there are no more of them; None where they are not of the deciding workload, whose number is fixed."""

    def to_decide(self, value: float, low: float, high: float, bound: float) -> Need:
        """The half-width of the log ratio must shrink to |log(value / bound)|.

        Of k pairs of processes it is t(k - 1) / √k times their spread (`pairing.compare`): few of them gain more from
        another one than 1/√k says. 0 and less are infinitely far from any ratio.
        """
        distance = abs(math.log(value / bound)) if bound > 0 else math.inf
        if distance == 0:
            return Need(MoreOf.PROCESS_PAIRS, None, "")
        half = math.log(value / low) if bound < value else math.log(high / value)
        wanted = _width(self.count) * distance / half
        larger = range(self.count + 1, (PRACTICAL + 1) * self.count + 1)
        place = bisect_left(larger, -wanted, key=lambda count: -_width(count))
        if place == len(larger):
            return Need(MoreOf.PROCESS_PAIRS, None, "")
        more = 1 + place
        remedy = f" ({_REMEDIES[self.stop]})" if self.stop in _REMEDIES else ""
        words = f"about {more:,} more {'pair' if more == 1 else 'pairs'} of processes would decide it{remedy}"
        return Need(MoreOf.PROCESS_PAIRS, more, words)


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


def timings(times: Times, percent: int) -> Callable[[VariantEvidence], Sample]:
    """Requests of the headline workload."""

    def sample(evidence: VariantEvidence) -> Sample:
        readings = evidence.readings(evidence.headline)
        if readings is None:
            return Timings((), percent, 0)
        return Timings(tuple(times(readings)), percent, request_times.processes(readings))

    return sample


def trials(evidence: VariantEvidence) -> Sample:
    found = failures.requests(evidence)
    return Trials(found.failed, found.asked)


def _width(count: int) -> float:
    """Half-width of the interval over so many pairs of processes, in units of the spread between them."""
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, pairing.QUANTILE)) / math.sqrt(count)
