"""How often a verdict is wrong where it can be computed: pass/fail items that stand alone.

The verdict depends on two counts there, items lost and items won, and these are multinomial. So every pair of counts is
judged once by the report's own code and weighs as much as it is likely: no draws, no luck.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import _truth_judging
import numpy
from _truth_simulation import AGAIN, Line
from _truth_worlds import BINARY, Category, Floats, Quality, Rng, World
from scipy import stats

from pipeline.records import Verdict

UNLIKELY = 1e-9
"""Pairs of counts that are less likely are left out. What they leave open counts as UNDECIDED: below 1e-4."""


@dataclass(frozen=True)
class Counted(Category):
    """So many items are lost and won, and of the others as many pass as do on average."""

    losses: int = 0
    wins: int = 0

    def draw(self, rng: Rng) -> tuple[Floats, Floats]:
        same = numpy.arange(self.n - self.losses - self.wins) % 2
        lost, won = numpy.zeros(self.losses), numpy.ones(self.wins)
        return numpy.concatenate([lost, won, same]), numpy.concatenate([1 - lost, 1 - won, same])


def lines(world: World) -> list[Line] | None:
    """Each gate of the world with the exact shares of its verdicts; None where counts do not decide."""
    category = _alone(world)
    if category is None:
        return None
    [variant] = world.variants
    shares: defaultdict[str, defaultdict[Verdict, float]] = defaultdict(lambda: defaultdict(float))
    truths = {}
    for likely, counted in _counts(category):
        known = replace(world, variants=(replace(variant, quality=Quality(((1.0, (counted,)),))),))
        for judged in _truth_judging.judge(known, numpy.random.default_rng(0)):
            shares[judged.gate][judged.verdict] += likely
            truths[judged.gate] = judged.truth
    return [
        Line(world, variant.name, gate, truths[gate], _of_draws(found), exact=True) for gate, found in shares.items()
    ]


def _alone(world: World) -> Category | None:
    """The one category of the world's one eval set, if its items pass or fail and stand alone."""
    if len(world.variants) != 1 or world.variants[0].quality is None:
        return None
    categories = [category for _, each in world.variants[0].quality.sets for category in each]
    category = categories[0]
    simple = category.scale == BINARY and category.drift is None and category.cluster == 1 and not category.critical
    return category if simple and len(categories) == 1 else None


def _counts(category: Category) -> Iterator[tuple[float, Counted]]:
    """Every pair of counts that is likely enough, and how likely it is."""
    pairs = numpy.array([(lost, won) for lost in range(category.n + 1) for won in range(category.n + 1 - lost)])
    counts = numpy.column_stack([pairs, category.n - pairs.sum(axis=1)])
    chances = [category.lost, category.won, 1 - category.lost - category.won]
    likely = stats.multinomial.pmf(counts, category.n, chances)
    for place in numpy.flatnonzero(likely > UNLIKELY):
        losses, wins = map(int, pairs[place])
        yield float(likely[place]), Counted(category.n, category.lost, category.won, losses=losses, wins=wins)


def _of_draws(shares: Mapping[Verdict, float]) -> Counter[Verdict]:
    """As many draws as a world gets that is drawn again, to weigh as much as one."""
    found: Counter[Verdict] = Counter()
    found.update({verdict: AGAIN * share for verdict, share in shares.items()})
    found[Verdict.UNDECIDED] += AGAIN - found.total()
    return found
