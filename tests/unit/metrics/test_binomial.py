"""Exact intervals against hand-worked numbers and against the binomial distribution itself."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from pipeline.metrics.binomial import more_trials, percentile_interval, share_interval


@pytest.mark.parametrize("count", [1, 20, 417])
def test_without_a_hit_the_upper_end_is_a_root(count: int):
    # (1 - p)^n = 2.5 %
    assert share_interval(0, count) == (0.0, pytest.approx(1 - 0.025 ** (1 / count)))
    assert share_interval(count, count) == (pytest.approx(0.025 ** (1 / count)), 1.0)


@given(st.integers(1, 500), st.data())
def test_it_is_the_interval_of_clopper_and_pearson(count: int, data: st.DataObject):
    hits = data.draw(st.integers(0, count))
    expected = binomtest(hits, count).proportion_ci(0.95, method="exact")
    assert share_interval(hits, count) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_the_percentile_interval_is_of_the_readings_of_two_ranks():
    values = [float(place) for place in range(1, 101)]
    Random(0).shuffle(values)
    low, high = percentile_interval(values, 0.95)
    # P(X <= 89) = 1.15 % and P(X <= 90) = 2.8 % of 100 at 95 %; P(X >= 99) = 3.7 %, P(X >= 100) = 0.6 %.
    assert (low.value, high.value) == (90, 100)


@pytest.mark.parametrize("q", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("count", [6, 21, 72, 368, 1000])
def test_each_end_errs_in_at_most_2_5_per_cent_and_no_rank_nearer_does(count: int, q: float):
    low, high = percentile_interval([float(place) for place in range(1, count + 1)], q)
    if low.value is not None:
        # The quantile lies below the reading of rank l when fewer than l readings are below it.
        assert binom.cdf(low.value - 1, count, q) <= 0.025 < binom.cdf(low.value, count, q)
    if high.value is not None:
        assert binom.sf(high.value - 1, count, q) <= 0.025 < binom.sf(high.value - 2, count, q)


@pytest.mark.parametrize(("q", "needed"), [(0.95, 72), (0.99, 368)])
def test_an_end_that_is_not_there_says_from_how_many_readings_it_is(q: float, needed: int):
    _, high = percentile_interval([1.0] * (needed - 1), q)
    assert high.reason == f"the upper end of P{100 * q:g} needs {needed} readings, there are {needed - 1}"
    assert percentile_interval([1.0] * needed, q)[1].value == 1


def test_a_low_percentile_lacks_its_lower_end():
    low, _ = percentile_interval([1.0] * 5, 0.5)
    assert low.reason == "the lower end of P50 needs 6 readings, there are 5"
    assert percentile_interval([1.0] * 6, 0.5)[0].value == 1


def test_more_trials_are_those_with_which_the_interval_leaves_the_bound_out():
    # Without a hit: ln 0.025 / ln 0.98 = 182.6
    assert more_trials(0, 100, 0.02, 2000) == 83
    assert share_interval(0, 183)[1] < 0.02 < share_interval(0, 182)[1]
    assert more_trials(0, 100, 0.02, 82) is None
    assert more_trials(0, 100, 0.02, 83) == 83
    assert more_trials(10, 100, 0.05, 2000) == 5
    assert share_interval(10.5, 105)[0] > 0.05 >= share_interval(10.4, 104)[0]
