"""What an interval is over, and how much larger that sample would have to be to clear a bound inside it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pipeline.metrics import pairing
from pipeline.metrics.evidence import Compare, VariantEvidence
from pipeline.readings import Stop

MANY = 10_000
"""Pairs of processes beyond which no number is given."""
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
    """Scored items."""

    count: int

    def to_decide(self, value: float, low: float, high: float, bound: float) -> str:
        """The half-width h on the bound's side must shrink to d = |value - bound|.

        It shrinks as 1/√n: n × (h / d)² - n more items. At its floor of 3/n (rule of three) as 1/n: 3 / d - n more.
        """
        distance = abs(value - bound)
        if distance == 0:
            return "the value equals the bound, so no number of items is sure to decide it"
        half = value - low if bound < value else high - value
        at_floor = math.isclose(half, 3 / self.count)
        needed = 3 / distance if at_floor else self.count * (half / distance) ** 2
        return f"about {max(1, math.ceil(needed - self.count - 1e-9)):,} more items would decide it"


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
