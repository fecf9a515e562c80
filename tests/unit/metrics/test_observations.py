"""Items that weigh differently and come in clusters."""

from __future__ import annotations

import math

import pytest

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
