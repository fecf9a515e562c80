"""Worlds whose truth is known: how items are scored and how fast turns are, drawn at random.

A world says what is true of a variant before anything is drawn, so that every verdict on a draw is right, wrong or left
open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy
from numpy.typing import NDArray

Floats = NDArray[numpy.float64]
Rng = numpy.random.Generator
PASSING = 0.6
"""Share of the items that do not change which both pass."""
SMALL = 0.1
"""Standard deviation of an item's change where all change a little."""


@dataclass(frozen=True)
class Scale:
    """How much an item changes that changes."""

    name: str
    sizes: tuple[float, ...]

    @property
    def mean(self) -> float:
        return math.fsum(self.sizes) / len(self.sizes)


BINARY = Scale("pass/fail", (1.0,))
GRADED = Scale("graded", (0.25, 0.5, 1.0))


@dataclass(frozen=True)
class Category:
    """Items alike: of each, the chance to be lost and to be won. An item that changes does so by one of the sizes."""

    n: int
    lost: float
    won: float
    scale: Scale = BINARY
    cluster: int = 1
    """Items of one document."""
    correlation: float = 0.0
    """Of whether items of one document change, 0 to 1."""
    weight: float = 1.0
    """Of each item."""
    critical: int = 0
    """Critical items among the n."""
    drift: float | None = None
    """In place of all of it: every item changes a little, by this much on average."""

    @property
    def delta(self) -> float:
        """True mean of variant - baseline."""
        return self.drift if self.drift is not None else (self.won - self.lost) * self.scale.mean

    def draw(self, rng: Rng) -> tuple[Floats, Floats]:
        """Scores of the variant and of the baseline, item by item."""
        if self.drift is not None:
            theirs = rng.uniform(0.45, 0.55, self.n)
            return numpy.clip(theirs + self.drift + SMALL * rng.normal(size=self.n), 0, 1), theirs
        lost, won = self._chances(rng)
        chance = rng.random(self.n)
        size = rng.choice(self.scale.sizes, self.n)
        same = numpy.where(rng.random(self.n) < PASSING, 1.0, 0.0)
        is_lost, is_won = chance < lost, chance >= 1 - won
        ours = numpy.where(is_lost, 1 - size, numpy.where(is_won, 1.0, same))
        theirs = numpy.where(is_won, 1 - size, numpy.where(is_lost, 1.0, same))
        return ours, theirs

    def _chances(self, rng: Rng) -> tuple[Floats, Floats]:
        """Of each item to be lost and won: the same everywhere, or those of its document."""
        shares = numpy.array([self.lost, self.won, 1 - self.lost - self.won])
        if not self.correlation:
            return numpy.full(self.n, self.lost), numpy.full(self.n, self.won)
        documents = math.ceil(self.n / self.cluster)
        if self.correlation == 1:
            drawn = rng.multinomial(1, shares, documents).astype(float)
        else:
            drawn = rng.gamma(shares * (1 / self.correlation - 1) + 1e-12, size=(documents, 3))
            drawn /= drawn.sum(axis=1, keepdims=True)
        each = numpy.repeat(drawn, self.cluster, axis=0)[: self.n]
        return each[:, 0], each[:, 1]


@dataclass(frozen=True)
class Quality:
    """Eval sets: each a weight and its categories."""

    sets: tuple[tuple[float, tuple[Category, ...]], ...]

    @property
    def delta(self) -> float:
        """True mean of variant - baseline, weighted as the report does."""
        whole = math.fsum(weight for weight, _ in self.sets)
        return math.fsum(weight * _mean(categories) for weight, categories in self.sets) / whole

    @property
    def worst(self) -> float:
        return min(category.delta for _, categories in self.sets for category in categories)


def _mean(categories: tuple[Category, ...]) -> float:
    whole = math.fsum(category.n * category.weight for category in categories)
    return math.fsum(category.n * category.weight * category.delta for category in categories) / whole


@dataclass(frozen=True)
class Speed:
    """Turns of variant and baseline. Standard deviations are of log ratios."""

    ratio: float
    """True decode rate of the variant / the baseline's."""
    between: float = 0.03
    """From one pair of processes to the next."""
    within: float = 0.05
    """From turn to turn."""
    bursts: float = 0.0
    """Share of turns in which a neighbour slows one side down up to threefold."""
    turns: int = 7
    processes: int = 3
    most_processes: int = 3
    """With more than `processes`: measured until the interval reaches at most `HALF_WIDTH` to either side."""

    def draw(self, rng: Rng) -> list[float]:
        """Ratios of one pair of processes."""
        logs = math.log(self.ratio) + self.between * rng.normal() + self.within * rng.normal(size=self.turns)
        hit = rng.random(self.turns) < self.bursts
        slowed = numpy.log(rng.uniform(1, 3, self.turns)) * rng.choice([-1, 1], self.turns)
        found: list[float] = numpy.exp(logs + numpy.where(hit, slowed, 0)).tolist()
        return found


HALF_WIDTH = 0.03


@dataclass(frozen=True)
class Variant:
    """What is true of one variant. None: not what this world is about."""

    name: str
    quality: Quality | None = None
    speed: Speed | None = None
    rejected: bool = False
    """The smoke gate stopped it, so nothing was measured."""


@dataclass(frozen=True)
class World:
    family: str
    name: str
    gates: tuple[str, ...]
    """Of `_truth_judging.GATES`."""
    variants: tuple[Variant, ...] = field(default=())


# --- the worlds ------------------------------------------------------------------------------------------------


def worlds() -> Iterator[World]:
    yield from _alone()
    yield from _clustered()
    yield from _weighted()
    yield from _graded()
    yield from _several_sets()
    yield from _worst_category()
    yield from _critical()
    yield from _speed()
    yield from _decisions()


DROP = ("drop ≤ 2", "drop ≤ 8")


def _one_set(*categories: Category) -> Quality:
    return Quality(((1.0, categories),))


def _world(family: str, name: str, gates: tuple[str, ...], quality: Quality) -> World:
    return World(family, name, gates, (Variant("variant", quality=quality),))


def shares(changing: float, delta: float, scale: Scale = BINARY) -> tuple[float, float]:
    """Lost and won: `changing` items change, or as many as the delta takes, which is then all one way."""
    net = delta / scale.mean
    changed = max(changing, abs(net))
    return (changed - net) / 2, (changed + net) / 2


def _points(delta: float) -> str:
    return f"{100 * delta:+.0f} points" if delta else "equal"


def _alone() -> Iterator[World]:
    """Pass/fail items that stand alone."""
    for n in (50, 200, 400):
        yield _world("pass/fail", f"{n} items, exact copy", DROP, _one_set(Category(n, 0, 0)))
        for changing, delta in product((0.02, 0.1, 0.2), (0.02, 0.0, -0.01, -0.02, -0.03, -0.08, -0.4)):
            if changing == 0.1 or (delta in (-0.02, -0.08) and n > 50):
                name = f"{n} items, {changing:.0%} change, {_points(delta)}"
                yield _world("pass/fail", name, DROP, _one_set(Category(n, *shares(changing, delta))))


def _clustered() -> Iterator[World]:
    """Four items of each document."""
    cases = [
        *product((200,), (0.1, 0.3, 1.0), (0.02, 0.1), (-0.02, -0.08)),
        *product((200,), (0.1, 0.3, 1.0), (0.02,), (0.0,)),
        *product((400,), (0.3, 1.0), (0.02,), (0.0, -0.02)),
    ]
    for n, icc, changing, delta in cases:
        name = f"{n} items, clusters of 4, ICC {icc:g}, {changing:.0%} change, {_points(delta)}"
        category = Category(n, *shares(changing, delta), cluster=4, correlation=icc)
        yield _world("clustered", name, DROP, _one_set(category))


def _weighted() -> Iterator[World]:
    """Half of the items weigh three times as much; all losses are among these, or spread."""
    for n, delta in product((200, 400), (0.0, -0.02, -0.08)):
        heavy = _one_set(Category(n // 2, 0.02, 0.02), Category(n // 2, *shares(0.02, delta * 4 / 3), weight=3))
        yield _world("weighted", f"{n} items, weights 1 and 3, {_points(delta)} in the heavy half", DROP, heavy)
        spread = _one_set(Category(n // 2, *shares(0.1, delta)), Category(n // 2, *shares(0.1, delta), weight=3))
        yield _world("weighted", f"{n} items, weights 1 and 3, {_points(delta)} everywhere", DROP, spread)


def _graded() -> Iterator[World]:
    for n, changing, delta in product((100, 200, 400), (0.05, 0.2), (0.0, -0.02, -0.08)):
        name = f"{n} items, {changing:.0%} change by ¼, ½, 1, {_points(delta)}"
        yield _world("graded", name, DROP, _one_set(Category(n, *shares(changing, delta, GRADED), scale=GRADED)))
    for n, delta in product((100, 200), (0.0, -0.02, -0.08)):
        name = f"{n} items, all change a little, {_points(delta)}"
        yield _world("graded", name, DROP, _one_set(Category(n, 0, 0, GRADED, drift=delta)))
    for icc, delta in product((0.3, 1.0), (-0.02, -0.08)):
        category = Category(200, *shares(0.1, delta, GRADED), scale=GRADED, cluster=4, correlation=icc)
        yield _world("graded", f"200 items, clusters of 4, ICC {icc:g}, {_points(delta)}", DROP, _one_set(category))


def _several_sets() -> Iterator[World]:
    """Three sets that weigh 2, 1 and 1, as params.yaml has them."""
    for sizes, delta in product(((204, 102, 48), (400, 200, 100)), (0.0, -0.02, -0.04, -0.08)):
        items = "/".join(map(str, sizes))
        everywhere = [(Category(n, *shares(0.1, delta)),) for n in sizes]
        yield _world("several sets", f"{items} items, {_points(delta)} everywhere", DROP, _weigh(everywhere))
        one = [(Category(n, 0.02, 0.02),) for n in sizes[:-1]] + [(Category(sizes[-1], *shares(0.05, 4 * delta)),)]
        yield _world("several sets", f"{items} items, {_points(delta)} by the smallest alone", DROP, _weigh(one))


def _weigh(sets: Sequence[tuple[Category, ...]]) -> Quality:
    return Quality(tuple(zip((2.0, 1.0, 1.0), sets, strict=True)))


def _worst_category() -> Iterator[World]:
    """One category is worse than the others, or all are."""
    for n, count, delta in product((34, 200), (3, 6), (0.0, -0.02, -0.05, -0.08, -0.15)):
        bad, good = Category(n, *shares(0.05, delta)), Category(n, 0.02, 0.02)
        one, every = _one_set(bad, *[good] * (count - 1)), _one_set(*[bad] * count)
        name = f"{count} categories of {n}, {_points(delta)}"
        yield _world("worst category", f"{name} in one", ("worst ≤ 5",), one)
        if delta:
            yield _world("worst category", f"{name} in each", ("worst ≤ 5",), every)


def _critical() -> Iterator[World]:
    """Each critical item is lost with this chance; what is true is what was lost."""
    for count, lost in product((10, 30), (0.0, 0.02, 0.2)):
        category = Category(200, lost, 0.0, critical=count)
        yield _world(
            "critical", f"{count} critical items, each lost with {lost:.0%}", ("critical",), _one_set(category)
        )


def _speed() -> Iterator[World]:
    for ratio, between in product((1.0, 1.25, 1.3, 1.35, 1.5, 2.0), (0.01, 0.03, 0.06)):
        yield _speed_world(f"{ratio:g}×, processes ± {between:.0%}", Speed(ratio, between))
    for ratio in (1.25, 1.3, 1.35):
        more = Speed(ratio, 0.03, most_processes=8)
        yield _speed_world(f"{ratio:g}×, processes ± 3%, until ± {HALF_WIDTH:.0%}, at most 8", more)
        bursts = Speed(ratio, 0.03, within=0.1, bursts=0.2)
        yield _speed_world(f"{ratio:g}×, processes ± 3%, bursts in 20% of turns", bursts)


def _speed_world(name: str, speed: Speed) -> World:
    return World("speed", name, ("speed ≥ 1.3",), (Variant("variant", speed=speed),))


def _decisions() -> Iterator[World]:
    """Whole releases: several variants, all gates at once, and the pick."""
    gates = ("drop ≤ 2", "worst ≤ 8", "critical", "speed ≥ 1.3")
    good, fast = _desk(0.0), Speed(1.6)
    rejected = Variant("rejected", rejected=True)
    tempting = Variant("tempting", _desk(-0.05), Speed(3.0, 0.01))
    yield World(
        "decision",
        "a good one and tempting ones",
        gates,
        (Variant("good", good, fast), tempting, Variant("slow", good, Speed(1.1)), rejected),
    )
    yield World(
        "decision",
        "at the bounds",
        gates,
        (
            Variant("good", good, fast),
            Variant("quality at its bound", _desk(-0.02), fast),
            Variant("speed at its bound", good, Speed(1.3)),
            Variant("both at their bounds", _desk(-0.02), Speed(1.3)),
        ),
    )
    yield World(
        "decision",
        "none is good",
        gates,
        (tempting, Variant("broken", _desk(-0.4), Speed(3.0)), Variant("equal but slow", good, Speed(1.0)), rejected),
    )


def _desk(delta: float) -> Quality:
    """700 items: 600 in three categories that change alike, 100 that never do, among them 10 critical ones."""
    three = [Category(200, *shares(0.02, delta * 7 / 6))] * 3
    return _one_set(*three, Category(100, 0, 0, critical=10))
