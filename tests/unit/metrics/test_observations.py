"""Items that weigh differently and come in clusters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pipeline.metrics import observations
from pipeline.metrics.observations import Observation


def alone(values, weights=None):
    weights = weights or [1.0] * len(values)
    return [
        Observation(value, weight, str(place))
        for place, (value, weight) in enumerate(zip(values, weights, strict=True))
    ]


def clustered(values, size):
    return [Observation(value, 1.0, str(place // size)) for place, value in enumerate(values)]


def test_the_mean_is_weighted():
    # (3 × 1 + 1 × 0 + 1 × 0.5) / 5
    assert observations.mean(alone([1, 0, 0.5], [3, 1, 1])) == pytest.approx(0.7)


def test_items_by_themselves_count_one_by_one():
    assert observations.effective_items(alone([1, 0, 1, 1, 0])) == pytest.approx(5)
    assert observations.effective_items(alone([1.0] * 5)) == pytest.approx(5)


def test_weights_that_differ_tell_less():
    # (3 + 1 + 1 + 1)² / (9 + 1 + 1 + 1); all are alike, so nothing else is known of the variance.
    assert observations.effective_items(alone([1, 1, 1, 1], [3, 1, 1, 1])) == pytest.approx(3)
    # Changes where the weight is: variance of a value 2 × 0.3 × 0.7 … / of the mean, Σ (w (x - m))² / (Σw)²
    observed = alone([1, 0, 0, 0, 0, 0, 0, 0], [3, 1, 1, 1, 1, 1, 1, 1])
    of_value, of_mean = 0.3 * 0.7, (3 * 0.7) ** 2 / 100 + 7 * 0.3**2 / 100
    assert observations.effective_items(observed) == pytest.approx(of_value / of_mean)


def test_clusters_that_are_all_alike_count_as_one_item_each():
    # 10 clusters of 4, 5 of them 1: variance of the mean 1/4 / (10 - 1), of a value 1/4, × 39/40 for comparison.
    observed = clustered([1] * 20 + [0] * 20, 4)
    assert observations.effective_items(observed) == pytest.approx(9 * 40 / 39)


def test_clusters_as_mixed_as_chance_or_more_count_as_their_items():
    assert observations.effective_items(clustered([1, 0] * 20, 4)) == pytest.approx(40)


def test_clusters_of_which_nothing_shows_how_alike_they_are_count_as_one_item_each():
    assert observations.effective_items(clustered([0.0] * 40, 4)) == pytest.approx(10)
    # 4 + 4 + 2 items in three clusters: 10² / (16 + 16 + 4)
    assert observations.effective_items(clustered([0.1] * 10, 4)) == pytest.approx(100 / 36)
    # One item that differs shows it: it is the only one of its cluster.
    assert observations.effective_items(clustered([1.0] + [0.0] * 39, 4)) > 30


def test_one_cluster_is_one_draw():
    assert observations.effective_items(clustered([1, 0, 1, 0], 4)) == 1


def test_few_clusters_have_students_t():
    assert observations.quantile(alone([0] * 25), 0.025) == pytest.approx(1.959964)
    # 25 clusters: t(24) at 0.975
    assert observations.quantile(clustered([0] * 100, 4), 0.025) == pytest.approx(2.063899)


def test_the_bootstrap_resamples_items_with_their_weight():
    # Two thirds of the weight are 1. Percentiles of a mean of 100 with sd √(Σ w² (x - m)²) / Σ w
    observed = alone([1, 0] * 50, [2, 1] * 50)
    low, high = observations.bootstrap(observed, (), 3, 0.025)
    sd = math.sqrt(50 * (2 / 3) ** 2 + 50 * (2 / 3) ** 2) / 150
    assert (low, high) == pytest.approx((2 / 3 - 1.99 * sd, 2 / 3 + 1.99 * sd), abs=0.01)
    assert observations.bootstrap(observed, (), 3, 0.025) == (low, high)


def test_another_seed_draws_others():
    observed = alone([0.01 * place**1.1 for place in range(50)])
    assert observations.bootstrap(observed, (), 4, 0.025) != observations.bootstrap(observed, (), 3, 0.025)


def test_the_bootstrap_draws_whole_clusters():
    values = [1.0] * 60 + [0.0] * 60
    narrow = observations.bootstrap(alone(values), (), 0, 0.025)
    wide = observations.bootstrap(clustered(values, 4), (), 0, 0.025)
    # 30 clusters: √4 as wide, and t(29) · √(30 / 29) instead of t(119) · √(120 / 119)
    assert wide[1] - wide[0] == pytest.approx(2 * 2.0802 / 1.9884 * (narrow[1] - narrow[0]), rel=0.06)


def test_added_items_weigh_as_one_item_or_as_what_moves_together():
    assert observations.bootstrap(alone([0.0] * 100), (1, -1), 0, 0.025) == pytest.approx((-3 / 102, 3 / 102), abs=0.01)
    # Whole clusters of 4 change alike, so an added item is one of 4: the interval is 4 times as wide but for the rest.
    values = [0.5] * 4 + [-0.5] * 4 + [0.0] * 92
    with_added = observations.bootstrap(clustered(values, 4), (0.5, -0.5), 0, 0.025)
    without = observations.bootstrap(clustered(values, 4), (), 0, 0.025)
    # Σ of squares: 2 clusters of 2² without, 4 with
    assert with_added[1] - with_added[0] == pytest.approx(math.sqrt(2) * (without[1] - without[0]), rel=0.15)


def skewed(scale=1.0, size=3):
    """40 items in clusters of 3, every other one of weight 3; most change by nothing and some are losses."""
    values = [0, 0, -1, 0, 0, -3, 0, 0, 0, 1, -7, 0, 0, -2, 0, 0, 0, -5, 0, 0] * 2
    return [
        Observation(scale * value, 3.0 if place % 2 else 1.0, str(place // size)) for place, value in enumerate(values)
    ]


def librarys_bca(totals, weights, level):
    found = stats.bootstrap(
        (np.array(totals), np.array(weights)),
        lambda total, weight, axis: total.sum(axis=axis) / weight.sum(axis=axis),
        paired=True,
        confidence_level=1 - 2 * level,
        n_resamples=observations.RESAMPLES,
        batch=999,
        method="BCa",
        rng=np.random.default_rng(3),
    ).confidence_interval
    return found.low, found.high


LOSSES = [-((0.013 * place**2 % 1) ** 3) for place in range(40)]
# As far out as t(39) · √(40 / 39) asks for
LEVEL = stats.norm.cdf(-2.022691 * 1.012739)


def test_bca_is_the_librarys_with_the_same_resamples():
    weights = [1.0, 3.0] * 20
    expected = librarys_bca(np.multiply(LOSSES, weights), weights, LEVEL)
    observed = alone(LOSSES, weights)
    assert observations.bca(observed, (), 3, 0.025) == pytest.approx(expected, abs=1e-6)
    low, high = observations.bootstrap(observed, (), 3, 0.025)
    assert expected[0] < low - 0.005
    assert expected[1] < high - 0.005


def test_added_items_do_not_hide_a_skew():
    # In the library's acceleration the added 1 counts against the losses.
    hidden = librarys_bca([*LOSSES, 1, -1], [1.0] * 42, LEVEL)
    low, high = observations.bca(alone(LOSSES), (1, -1), 3, 0.025)
    assert low < hidden[0] - 0.001
    assert high < hidden[1] - 0.001


def test_bca_levels_are_those_of_a_published_example():
    # Efron & Tibshirani 1993, § 14.3: z0 = 0.146, a = 0.061, 90 %
    levels = [observations._bca_level(z, 0.146, 0.061) for z in (-1.644854, 1.644854)]
    assert levels == pytest.approx([0.110, 0.985], abs=1e-3)


def test_without_bias_and_skew_bca_is_the_percentile():
    assert observations._bca_level(-1.959964, 0, 0) == pytest.approx(0.025)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_acceleration_is_that_of_one_item_that_stands_out(sign):
    # Without it the mean is 0, without another 1/3: d = 1/4 and three times -1/12, (1/64 - 3/1728) / 6 (1/12)^1.5
    found = observations._acceleration(np.array([sign, 0.0, 0, 0]), np.ones(4))
    assert found == pytest.approx(sign * (1 / 64 - 3 / 1728) / (6 * (1 / 12) ** 1.5))
    assert found == pytest.approx(sign * 2 / (6 * math.sqrt(12)))


def test_the_acceleration_goes_by_weight():
    # Weights 1, 3, 1 and values 1, 1, 0: without each 3/4, 1/2, 4/4
    without = np.array([3 / 4, 1 / 2, 1.0])
    d = without.mean() - without
    found = observations._acceleration(np.array([1.0, 3, 0]), np.array([1.0, 3, 1]))
    assert found == pytest.approx((d**3).sum() / (6 * (d**2).sum() ** 1.5))


def test_means_equal_but_for_rounding_count_half():
    # Sums of eighths are exact, those of tenths are not; many resampled means are the mean itself.
    exact, rounded = (observations.bca(skewed(scale), (scale, -scale), 0, 0.025) for scale in (0.125, 0.1))
    assert rounded == pytest.approx((0.8 * exact[0], 0.8 * exact[1]), abs=1e-9)
    low, high = observations.bca(alone([0.1] * 5 + [-0.1] * 5 + [0.0] * 90), (), 0, 0.025)
    assert low == pytest.approx(-high, abs=0.001)


def test_bca_depends_on_nothing_but_the_seed():
    first = observations.bca(skewed(), (1, -1), 5, 0.025)
    assert observations.bca(skewed(), (1, -1), 5, 0.025) == first
    assert observations.bca(skewed(size=1), (1, -1), 6, 0.025) != observations.bca(skewed(size=1), (1, -1), 5, 0.025)


def test_where_nothing_differs_bca_is_that_one_value():
    assert observations.bca(alone([0.1] * 7), (), 0, 0.025) == pytest.approx((0.1, 0.1))
    assert observations._acceleration(np.full(7, 0.1), np.ones(7)) == 0


def test_percentiles_beyond_what_few_units_can_show_are_the_outermost_means():
    # Three units: t(2) · √1.5 at 0.1 % is 27 standard errors out, where an a of ± 0.068 turns the formula over.
    assert observations.bca(alone([-1.0, 0.0, 0.0]), (), 0, 0.001) == (-1, 0)
    assert observations.bca(alone([1.0, 0.0, 0.0]), (), 0, 0.001) == (0, 1)
