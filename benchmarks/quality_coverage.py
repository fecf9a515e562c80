"""Do the 95 % intervals of quality hold the truth in 95 of 100 cases, and does a gate pass wrongly in at most 5?

Answers are drawn at random in worlds whose truth is known, and go through the code of the report. Worlds: 100 and 200
items; pass/fail, graded 0, ½, 1, and graded continuously; 5 to 20 % of the items change, or all do a little; true drops
of 0, 4 and 8 points; items by themselves, in clusters of 4 with an intraclass correlation of 0, 0.1 or 0.3, and with
category weights 1 and 3. Means are of scores whose truth is 0.5 to 0.95.

    python benchmarks/quality_coverage.py [--trials 1000] [--only differences | means | tests | power]

`held` is the share of trials whose interval holds the truth; `passed` that of trials in which a gate at the true drop
passes, which it should not: 2.5 % are meant, 5 % are allowed; `width` is the median width of the interval. For the same
trials the table gives what the percentile bootstrap, never narrower than ± 3/n, would have held and passed. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy
from numpy.typing import NDArray

from pipeline.metrics import intervals, observations, paired_tests, power
from pipeline.metrics.intervals import TAIL, Change
from pipeline.metrics.observations import Observation
from pipeline.records import Interval

Floats = NDArray[numpy.float64]
DROPS = (0.0, 0.04, 0.08)
SIZES = (100, 200)
CLUSTER = 4
USUAL_MEAN = 0.9
"""Of scores; beyond it few items fail."""
ALL_CHANGE = 1.0
"""The share of changing items that stands for: each changes a little."""
SPREAD = 0.1
"""Standard deviation of these small changes."""


@dataclass(frozen=True)
class Scale:
    """How items are scored: the sizes of the changes of those that change."""

    name: str
    sizes: Callable[[numpy.random.Generator, int], Floats]
    mean_size: float


SCALES = (
    Scale("pass/fail", lambda rng, n: numpy.ones(n), 1.0),
    Scale("0, ½, 1", lambda rng, n: rng.choice([0.5, 0.5, 1.0], n), 2 / 3),
    Scale("continuous", lambda rng, n: rng.uniform(0.1, 1, n), 0.55),
)


@dataclass(frozen=True)
class Layout:
    """How items come: clusters, and the weights of two halves of them."""

    name: str
    cluster: int = 1
    correlation: float = 0.0
    weights: tuple[float, float] = (1.0, 1.0)

    def units(self, n: int) -> list[str]:
        return [str(place // self.cluster) for place in range(n)]

    def weight(self, place: int, n: int) -> float:
        return self.weights[2 * place >= n]


LAYOUTS = (
    Layout("alone"),
    Layout("alone, weights 1 and 3", weights=(1.0, 3.0)),
    *(Layout(f"clusters of {CLUSTER}, ICC {icc:g}", CLUSTER, icc) for icc in (0.0, 0.1, 0.3)),
)


@dataclass(frozen=True)
class World:
    scale: Scale
    layout: Layout
    n: int
    changing: float
    drop: float

    @property
    def name(self) -> str:
        share = "all change" if self.changing == ALL_CHANGE else f"{self.changing:.0%} change"
        return f"{self.scale.name}; {self.layout.name}; {self.n} items; {share}"

    def draw(self, rng: numpy.random.Generator) -> list[Change]:
        units = self.layout.units(self.n)
        values = self._small(rng) if self.changing == ALL_CHANGE else self._few(rng)
        return [
            Change(Observation(float(value), self.layout.weight(place, self.n), unit), value == -1, value == 1)
            for place, (value, unit) in enumerate(zip(values, units, strict=True))
        ]

    def _few(self, rng: numpy.random.Generator) -> Floats:
        """Most items do not change; the shares that lose and win are the same in all clusters, or differ by them."""
        won = (self.changing - self.drop / self.scale.mean_size) / 2
        shares = numpy.array([self.changing - won, won, 1 - self.changing])
        size = self.layout.cluster
        if self.layout.correlation:
            concentration = shares * (1 / self.layout.correlation - 1)
            drawn = rng.gamma(concentration + 1e-12, size=(self.n // size, 3))
            each = numpy.repeat(drawn / drawn.sum(axis=1, keepdims=True), size, axis=0)
        else:
            each = numpy.tile(shares, (self.n, 1))
        chance = rng.random(self.n)
        signs = numpy.where(chance < each[:, 0], -1.0, numpy.where(chance < each[:, 0] + each[:, 1], 1.0, 0.0))
        found: Floats = signs * self.scale.sizes(rng, self.n)
        return found

    def _small(self, rng: numpy.random.Generator) -> Floats:
        share = self.layout.correlation
        common = numpy.repeat(rng.normal(0, 1, self.n // self.layout.cluster), self.layout.cluster)
        own = rng.normal(0, 1, self.n)
        found: Floats = SPREAD * (numpy.sqrt(share) * common + numpy.sqrt(1 - share) * own) - self.drop
        return found


def worlds() -> Iterator[World]:
    for scale, layout, n, changing, drop in product(SCALES, LAYOUTS, SIZES, (0.05, 0.1, 0.2, ALL_CHANGE), DROPS):
        little = changing == ALL_CHANGE
        possible = drop <= changing * scale.mean_size + 1e-9
        if possible and (not little or scale.name == "continuous"):
            yield World(scale, layout, n, changing, drop)


# --- what is checked -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """Of trials, in per cent."""

    held: float
    passed: float
    width: float

    def __str__(self) -> str:
        return f"{self.held:5.1f} {self.passed:5.1f} {100 * self.width:6.1f}"


def ends(interval: Interval) -> tuple[float, float]:
    low, high = interval.ci_low.value, interval.ci_high.value
    assert low is not None, interval.ci_low.reason
    assert high is not None, interval.ci_high.reason
    return low, high


def share(found: list[tuple[float, float]], truth: float) -> Share:
    return Share(
        held=100 * statistics.mean(low - 1e-9 <= truth <= high + 1e-9 for low, high in found),
        passed=100 * statistics.mean(low >= truth for low, _ in found),
        width=statistics.median(high - low for low, high in found),
    )


def plain_bootstrap(changes: list[Change], seed: int) -> tuple[float, float]:
    """Percentile bootstrap over items or clusters, never narrower than ± 3/n: what is compared with."""
    rng, drawn = numpy.random.default_rng(seed), observations.units([change.observed for change in changes])
    totals, weights = numpy.array([unit.total for unit in drawn]), numpy.array([unit.weight for unit in drawn])
    picked = rng.integers(0, len(drawn), (999, len(drawn)))
    low, high = numpy.quantile(totals[picked].sum(axis=1) / weights[picked].sum(axis=1), [TAIL, 1 - TAIL])
    mean, floor = float(totals.sum() / weights.sum()), 3 / len(changes)
    return min(float(low), mean - floor), max(float(high), mean + floor)


def differences(trials: int) -> dict[str, float]:
    print(f"{'differences':62} drop | ours: held passed width | bootstrap: held passed width")
    many: dict[tuple[str, float], Share] = {}
    few: dict[tuple[str, float], Share] = {}
    for world in worlds():
        rng = numpy.random.default_rng(0)
        drawn = [world.draw(rng) for _ in range(trials)]
        ours = share([ends(intervals.of_changes(each, seed)) for seed, each in enumerate(drawn)], -world.drop)
        plain = share([plain_bootstrap(each, seed) for seed, each in enumerate(drawn)], -world.drop)
        print(f"{world.name:62} {100 * world.drop:4.0f} | {ours}      | {plain}", flush=True)
        (few if world.changing * world.n <= 10 else many)[world.name, world.drop] = ours
    every = many | few
    return {
        "least_held": min(found.held for found in every.values()),
        "most_held": max(found.held for found in many.values()),
        "most_held_where_few_change": max(found.held for found in few.values()),
        "most_passed": max(found.passed for found in every.values()),
        "most_passed_at_8": max(found.passed for (_, drop), found in every.items() if drop == max(DROPS)),
    }


def mean_scores(scale: str, layout: Layout, truth: float, n: int, rng: numpy.random.Generator) -> list[Observation]:
    """Beta between clusters; in them pass/fail, the mean of two pass/fails, or beta again."""
    if layout.correlation:
        concentration = 1 / layout.correlation - 1
        drawn = rng.beta(truth * concentration, (1 - truth) * concentration, n // layout.cluster)
        each = numpy.clip(numpy.repeat(drawn, layout.cluster), 1e-6, 1 - 1e-6)
    else:
        each = numpy.full(n, truth)
    if scale == "continuous":
        values = rng.beta(4 * each, 4 * (1 - each))
    else:
        parts = 1 if scale == "pass/fail" else 2
        values = rng.binomial(parts, each) / parts
    units = layout.units(n)
    return [Observation(float(value), layout.weight(place, n), units[place]) for place, value in enumerate(values)]


def means(trials: int) -> dict[str, float]:
    print(f"{'means':62} truth | held, above, width")
    found = {}
    for scale, layout, n, truth in product(SCALES, LAYOUTS, SIZES, (0.5, 0.7, 0.9, 0.95)):
        rng = numpy.random.default_rng(0)
        drawn = [mean_scores(scale.name, layout, truth, n, rng) for _ in range(trials)]
        ours = share([ends(intervals.of_scores(each, seed)) for seed, each in enumerate(drawn)], truth)
        name = f"{scale.name}; {layout.name}; {n} items"
        print(f"{name:62} {truth:5.2f} | {ours}", flush=True)
        found[name, truth] = ours.held
    usual = [held for (_, truth), held in found.items() if truth <= USUAL_MEAN]
    return {
        "means_least_held": min(usual),
        "means_most_held": max(usual),
        "means_least_held_above_90": min(held for (_, truth), held in found.items() if truth > USUAL_MEAN),
    }


def tests(trials: int) -> dict[str, float]:
    """How often p is below 5 % where nothing is the matter."""
    print(f"{'tests':62} p < 5 %")
    found = {}
    for world in (world for world in worlds() if world.drop == 0):
        rng = numpy.random.default_rng(0)
        drawn = [world.draw(rng) for _ in range(trials)]
        found[world.name] = 100 * statistics.mean(
            paired_tests.p_value(each, seed)[0] < 0.05 for seed, each in enumerate(drawn)
        )
        print(f"{world.name:62} {found[world.name]:5.1f}", flush=True)
    return {"tests_most_wrong": max(found.values())}


def sizes(trials: int) -> dict[str, float]:
    """How often the gate passes, and the test finds the drop, at the sizes that the formulas of power.py give."""
    print(f"{'power: 80 % are meant':62} found")
    alone, passing, finding = LAYOUTS[0], [], []
    for margin, discordant in product((0.03, 0.05, 0.08), (0.05, 0.1, 0.2)):
        n = power.items_needed(margin, discordant)
        rng, world = numpy.random.default_rng(0), World(SCALES[0], alone, n, discordant, 0.0)
        lows = [ends(intervals.of_changes(world.draw(rng), 0))[0] for _ in range(trials)]
        passing.append(100 * statistics.mean(low >= -margin for low in lows))
        print(f"{f'gate of {margin:.0%}, {discordant:.0%} change, {n} items':62} {passing[-1]:5.1f}", flush=True)
    for n, discordant in product((100, 200, 400), (0.05, 0.1, 0.2)):
        drop = power.detectable_drop(n, discordant)
        rng, world = numpy.random.default_rng(0), World(SCALES[0], alone, n, max(discordant, drop), drop)
        ps = [paired_tests.p_value(world.draw(rng), 0)[0] for _ in range(trials)]
        finding.append(100 * statistics.mean(p < 0.05 for p in ps))
        print(
            f"{f'drop of {100 * drop:.1f} points, {discordant:.0%} change, {n} items':62} {finding[-1]:5.1f}",
            flush=True,
        )
    return {
        "gate_power_least": min(passing),
        "gate_power_most": max(passing),
        "test_power_least": min(finding),
        "test_power_most": max(finding),
    }


PARTS: dict[str, Callable[[int], dict[str, float]]] = {
    "differences": differences,
    "means": means,
    "tests": tests,
    "power": sizes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--only", choices=list(PARTS))
    asked = parser.parse_args()
    found: dict[str, float] = {}
    for name, part in PARTS.items():
        if asked.only in (None, name):
            found |= part(asked.trials)
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))


if __name__ == "__main__":
    main()
