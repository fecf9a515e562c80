"""Many draws of every world, on several processes, and how often their verdicts were wrong."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import _truth_judging
import numpy
from _truth_judging import Judged, Truth
from _truth_worlds import World

from pipeline.metrics import intervals
from pipeline.metrics.observations import Observation
from pipeline.records import Verdict

CHUNK = 50
"""Draws that one process makes at a time."""
AT_BOUND_SHARE = 4
"""Worlds at a bound, where verdicts are wrong most often, get so many times the draws of another one."""
ALLOWED = 0.05
SUSPECT = 0.04
"""A larger share of wrong verdicts is looked at again: computed, or `AGAIN` new draws, which then count alone."""
AGAIN = 20_000
TRUE_AT_BEST = (Truth.AT_BOUND, Truth.VIOLATES)
"""A PASS of these is wrong. Exactly at the bound too: there a test is to err in at most 2.5 % of cases."""
TRUE_AT_WORST = (Truth.AT_BOUND, Truth.MEETS)
"""A FAIL of these is wrong."""


@dataclass(frozen=True)
class Line:
    """All draws of one gate on one variant of one world with the same truth."""

    world: World
    variant: str
    gate: str
    truth: Truth
    verdicts: Mapping[Verdict, float]
    """Draws, or where it is computed how many of them are expected."""
    exact: bool = False
    """Computed, not drawn."""

    @property
    def draws(self) -> int:
        return round(sum(self.verdicts.values()))

    def share(self, verdict: Verdict) -> float:
        return self.verdicts.get(verdict, 0) / self.draws

    @property
    def wrong_pass(self) -> float | None:
        """Share of draws; None where a PASS is right."""
        return self.share(Verdict.PASS) if self.truth in TRUE_AT_BEST else None

    @property
    def wrong_fail(self) -> float | None:
        return self.share(Verdict.FAIL) if self.truth in TRUE_AT_WORST else None

    @property
    def most_wrong(self) -> float:
        return max(self.wrong_pass or 0.0, self.wrong_fail or 0.0)


@dataclass(frozen=True)
class Summary:
    """Of many lines. Worst: the line with the largest share; pooled: all draws in which it could be wrong together."""

    wrong_pass: float
    wrong_pass_pooled: float
    wrong_fail: float
    wrong_fail_pooled: float
    undecided: float
    """Of all draws."""


def summarize(lines: Sequence[Line]) -> Summary:
    passing = [line for line in lines if line.wrong_pass is not None]
    failing = [line for line in lines if line.wrong_fail is not None]
    return Summary(
        wrong_pass=max((line.share(Verdict.PASS) for line in passing), default=0.0),
        wrong_pass_pooled=_pooled(passing, Verdict.PASS),
        wrong_fail=max((line.share(Verdict.FAIL) for line in failing), default=0.0),
        wrong_fail_pooled=_pooled(failing, Verdict.FAIL),
        undecided=_pooled(lines, Verdict.UNDECIDED),
    )


def _pooled(lines: Sequence[Line], verdict: Verdict) -> float:
    draws = sum(line.draws for line in lines)
    return sum(line.verdicts.get(verdict, 0) for line in lines) / draws if draws else 0.0


def uncertainty(line: Line, verdict: Verdict) -> tuple[float, float]:
    """95 % interval of a share of draws (Wilson); one draw alone says nothing, and what is computed is known."""
    if line.exact:
        return line.share(verdict), line.share(verdict)
    if line.draws == 1:
        return 0.0, 1.0
    hits = line.verdicts.get(verdict, 0)
    found = intervals.of_scores([Observation(float(n < hits), 1.0, str(n)) for n in range(line.draws)], 0)
    assert found.ci_low.value is not None
    assert found.ci_high.value is not None
    return found.ci_low.value, found.ci_high.value


def allot(worlds: Sequence[World], draws: int) -> dict[World, int]:
    """`draws` of variants in each family; worlds at a bound get more of them. At least one each."""
    found: dict[World, int] = {}
    for family in dict.fromkeys(world.family for world in worlds):
        weights = {world: AT_BOUND_SHARE if at_bound(world) else 1 for world in worlds if world.family == family}
        whole = sum(weights.values())
        for world, weight in weights.items():
            found[world] = max(1, round(draws * weight / whole / len(world.variants)))
    return found


def at_bound(world: World) -> bool:
    rng = numpy.random.default_rng(0)
    drawn = [(variant, _truth_judging.draw(variant, rng)) for variant in world.variants if not variant.rejected]
    return any(
        _truth_judging.GATES[name].truth(variant, evidence) is Truth.AT_BOUND
        for variant, evidence in drawn
        for name in world.gates
    )


def run(draws: Mapping[World, int], jobs: int, seed: int = 0) -> Iterator[Line]:
    """Every world so many times. The same seed gives the same draws, whatever the number of jobs."""
    with ProcessPoolExecutor(jobs, initializer=_one_thread) as pool:
        pending = []
        for world, many in draws.items():
            parts = [(world, start, min(start + CHUNK, many), seed) for start in range(0, many, CHUNK)]
            pending.append((world, [pool.submit(chunk, *part) for part in parts]))
        for world, futures in pending:
            yield from tally(world, (judged for future in futures for judged in future.result()))


def suspects(lines: Iterable[Line]) -> list[World]:
    """Worlds in which so many verdicts were wrong that it may be by luck alone: the worst of many always looks bad."""
    return list(dict.fromkeys(line.world for line in lines if line.most_wrong > SUSPECT))


def tally(world: World, judged: Iterable[Judged]) -> list[Line]:
    counted: dict[tuple[str, str, Truth], Counter[Verdict]] = {}
    for each in judged:
        counted.setdefault((each.variant, each.gate, each.truth), Counter())[each.verdict] += 1
    return [Line(world, *key, verdicts) for key, verdicts in counted.items()]


def _one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"


def chunk(world: World, start: int, end: int, seed: int) -> list[Judged]:
    """Each draw has a generator of its own, so that it is the same in any chunk."""
    key = zlib.crc32(f"{world.family}: {world.name}".encode())
    rngs = (numpy.random.default_rng([seed, key, number]) for number in range(start, end))
    return [judged for rng in rngs for judged in _truth_judging.judge(world, rng)]
