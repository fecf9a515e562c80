from __future__ import annotations

import math

import pytest

from pipeline.metrics import intervals
from pipeline.records import Interval, known


def bounds(interval: Interval) -> tuple[float | None, float | None]:
    return interval.ci_low.value, interval.ci_high.value


def test_pass_fail_scores_have_wilsons_interval():
    # Wilson with z = 1.959964, 8 of 10: centre (p + z²/2n) / (1 + z²/n) = (0.8 + 0.192073) / 1.384146 = 0.716740,
    # half-width z sqrt(p(1-p)/n + z²/4n²) / (1 + z²/n) = 1.959964 × sqrt(0.016 + 0.0096036) / 1.384146 = 0.226577
    found = intervals.mean_interval([1] * 8 + [0] * 2, 0)
    assert (found.n, found.mean) == (10, 0.8)
    assert bounds(found) == pytest.approx((0.490163, 0.943317), abs=1e-5)


def test_all_passed_is_not_certainty():
    # Wilson at p = 1: low = 1 / (1 + z²/n) = 1 / (1 + 3.841459 / 20)
    low, high = bounds(intervals.mean_interval([1] * 20, 0))
    assert low == pytest.approx(1 / (1 + 3.841459 / 20), abs=1e-6)
    assert high == pytest.approx(1)


def test_graded_scores_are_bootstrapped_with_a_fixed_seed():
    scores = [0, 0.5, 1, 1] * 25
    found = intervals.mean_interval(scores, 7)
    low, high = bounds(found)
    # The normal approximation: 0.625 ± 1.96 × sd / sqrt(n), sd = sqrt(0.171875)
    half = 1.96 * math.sqrt(0.171875 / 100)
    assert (low, high) == pytest.approx((0.625 - half, 0.625 + half), abs=0.01)
    assert found == intervals.mean_interval(scores, 7)


def test_equal_graded_scores_get_the_rule_of_three():
    assert bounds(intervals.mean_interval([0.5] * 30, 0)) == pytest.approx((0.4, 0.6))


def test_one_item_has_no_interval():
    found = intervals.mean_interval([1], 0)
    assert found.mean == 1
    assert found.ci_low.value is None
    assert "at least 2" in (found.ci_low.reason or "")


def test_a_mean_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="no scores"):
        intervals.mean_interval([], 0)


def test_answers_all_alike_are_bounded_by_the_rule_of_three(build):
    items = build.items([1, 0] * 60)
    found = intervals.difference(items, items, 0)
    assert found.mean == 0
    # 3 / 120
    assert bounds(found) == pytest.approx((-0.025, 0.025))


def test_a_paired_difference_uses_the_pairs_not_the_means(build):
    # 40 lost and 40 won of 1,000: mean 0; sd of the differences sqrt(0.08); 1.96 × sqrt(0.08 / 1000) = 0.01753,
    # while unpaired means near 0.5 would give ± 0.044.
    ours = build.items([0] * 40 + [1] * 40 + [1, 0] * 460)
    theirs = build.items([1] * 40 + [0] * 40 + [1, 0] * 460)
    found = intervals.difference(ours, theirs, 0)
    assert found.mean == 0
    assert bounds(found) == pytest.approx((-0.0175, 0.0175), abs=0.0015)


def test_pairs_are_found_by_item_id_not_by_place(build):
    items = build.items([1, 0, 1, 0])
    assert intervals.difference(items, items[::-1], 0).mean == 0


def test_other_items_are_refused(build):
    with pytest.raises(ValueError, match="same items"):
        intervals.difference(build.items([1, 0]), build.items([1, 0, 1]), 0)


def interval(n: int, mean: float, low: float, high: float) -> Interval:
    return Interval(n=n, mean=mean, ci_low=known(low), ci_high=known(high))


def test_one_set_keeps_its_interval_whatever_its_weight():
    only = interval(10, 0.5, 0.3, 0.8)
    assert intervals.weighted([(only, 7)]) == only


def test_two_sets_combine_by_weight():
    # Shares 3/4 and 1/4: mean 0.75 × 0.8 + 0.25 × 0.4 = 0.7
    # low: 0.7 - sqrt((0.75 × 0.1)² + (0.25 × 0.4)²) = 0.7 - sqrt(0.005625 + 0.01) = 0.7 - 0.125
    # high: 0.7 + sqrt((0.75 × 0.1)² + (0.25 × 0.4)²) = 0.825
    found = intervals.weighted([(interval(90, 0.8, 0.7, 0.9), 3), (interval(10, 0.4, 0.0, 0.8), 1)])
    assert found.n == 100
    assert (found.mean, *bounds(found)) == pytest.approx((0.7, 0.575, 0.825))


def test_a_set_without_an_interval_leaves_the_whole_without_one():
    one_item = intervals.mean_interval([1], 0)
    found = intervals.weighted([(interval(90, 0.8, 0.7, 0.9), 1), (one_item, 1)])
    assert found.mean == pytest.approx(0.9)
    assert found.ci_high.value is None


def test_flips_are_lost_and_won(build):
    found = intervals.flips(build.items([0, 1, 1, 0.5]), build.items([1, 0, 1, 0.5]))
    assert [mine.item_id for mine, _ in found.lost] == ["item-000"]
    assert [mine.item_id for mine, _ in found.won] == ["item-001"]
