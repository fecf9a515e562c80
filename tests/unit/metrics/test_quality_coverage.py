"""How often the 95 % interval of a difference holds the truth, and a gate at the true drop passes.

`benchmarks/quality_coverage.py` does the same in many more worlds.
"""

from __future__ import annotations

import itertools
import statistics

import numpy
import pytest
from scipy.stats import multinomial

from pipeline.metrics import intervals, paired_tests
from pipeline.metrics.intervals import Change
from pipeline.metrics.observations import Observation
from pipeline.metrics.paired_proportions import score_interval

Z = 1.959963984540054
TRIALS = 300


@pytest.mark.parametrize(("n", "changing", "drop"), [(100, 0.1, 0.0), (100, 0.1, 0.08), (200, 0.05, 0.04)])
def test_pass_fail_items_exactly(n, changing, drop):
    """Over every number of lost and won items that is likely at all, by their trinomial probability."""
    lost, won = (changing + drop) / 2, (changing - drop) / 2
    held = passed = 0.0
    for losses, wins in itertools.product(range(40), repeat=2):
        chance = float(multinomial.pmf([losses, wins, n - losses - wins], n, [lost, won, 1 - lost - won]))
        if chance > 1e-6:
            low, high = score_interval(losses / n, wins / n, n, Z)
            held += chance * (low <= -drop <= high)
            passed += chance * (low >= -drop)
    assert 0.94 <= held <= 0.97
    assert passed <= 0.03


def drawn(rng, sizes, n, changing, drop, cluster=1, correlation=0.0):
    """Changes of n items, of which a share loses and a share wins; the shares differ between clusters (Dirichlet)."""
    won = (changing - drop / float(numpy.mean(sizes))) / 2
    shares = numpy.array([changing - won, won, 1 - changing])
    each = numpy.tile(shares, (n, 1))
    if correlation:
        each = numpy.repeat(rng.dirichlet(shares * (1 / correlation - 1), n // cluster), cluster, axis=0)
    chance = rng.random(n)
    signs = numpy.where(chance < each[:, 0], -1, numpy.where(chance < each[:, 0] + each[:, 1], 1, 0))
    values = signs * rng.choice(sizes, n)
    return [
        Change(Observation(float(value), 1.0, str(place // cluster)), bool(value == -1), bool(value == 1))
        for place, value in enumerate(values)
    ]


WHOLE, HALVES = (1.0,), (0.5, 0.5, 1.0)


@pytest.mark.parametrize(
    ("sizes", "layout", "trials"),
    [(HALVES, {}, TRIALS), (WHOLE, {"cluster": 4, "correlation": 0.2}, 800)],
    ids=["graded", "clusters"],
)
def test_items_drawn_at_random(sizes, layout, trials):
    """The standard error of the share is 1.3 % in 300 trials, 0.8 % in 800."""
    rng, drop, held, passed = numpy.random.default_rng(11), 0.08, [], []
    for seed in range(trials):
        found = intervals.of_changes(drawn(rng, sizes, 100, 0.2, drop, **layout), seed)
        low, high = found.ci_low.value, found.ci_high.value
        assert low is not None
        assert high is not None
        held.append(low <= -drop <= high)
        passed.append(low >= -drop)
    assert 0.93 <= statistics.mean(held) <= 0.975
    assert statistics.mean(passed) <= 0.05


def test_counting_clustered_items_one_by_one_would_not_do():
    rng, held = numpy.random.default_rng(11), []
    for _ in range(800):
        changes = drawn(rng, WHOLE, 100, 0.2, 0.08, cluster=4, correlation=0.6)
        lost, won = (sum(change.lost for change in changes), sum(change.won for change in changes))
        low, high = score_interval(lost / 100, won / 100, 100, Z)
        held.append(low <= -0.08 <= high)
    assert statistics.mean(held) < 0.9


@pytest.mark.parametrize(
    ("sizes", "layout"), [(HALVES, {}), (WHOLE, {"cluster": 4, "correlation": 0.4})], ids=["graded", "clusters"]
)
def test_a_test_finds_nothing_where_nothing_is_in_at_most_one_of_twenty_cases(sizes, layout):
    rng = numpy.random.default_rng(5)
    found = [paired_tests.p_value(drawn(rng, sizes, 60, 0.2, 0.0, **layout), seed)[0] for seed in range(200)]
    # 0.05 and two standard errors
    assert 0.01 <= statistics.mean(p < 0.05 for p in found) <= 0.08
