from __future__ import annotations

import math

import pytest

from pipeline.metrics import intervals, observations
from pipeline.metrics.observations import Observation
from pipeline.metrics.paired_proportions import score_interval
from pipeline.records import Interval, known


def bounds(interval: Interval) -> tuple[float | None, float | None]:
    return interval.ci_low.value, interval.ci_high.value


@pytest.fixture
def mean(build):
    def found(scores, seed=0, **changes):
        return intervals.mean_interval(items(build, scores, **changes), seed)

    return found


def items(build, scores, weights=None, clusters=None):
    weights, clusters = weights or [1.0] * len(scores), clusters or [None] * len(scores)
    return [
        build.item(f"item-{place:03}", score, weight=weight, cluster=cluster)
        for place, (score, weight, cluster) in enumerate(zip(scores, weights, clusters, strict=True))
    ]


def fours(n):
    """Names of clusters of 4."""
    return [f"document-{place // 4}" for place in range(n)]


def test_pass_fail_scores_have_wilsons_interval(mean):
    # Wilson with z = 1.959964, 8 of 10: centre (p + z²/2n) / (1 + z²/n) = (0.8 + 0.192073) / 1.384146 = 0.716740,
    # half-width z sqrt(p(1-p)/n + z²/4n²) / (1 + z²/n) = 1.959964 × sqrt(0.016 + 0.0096036) / 1.384146 = 0.226577
    found = mean([1] * 8 + [0] * 2)
    assert (found.n, found.mean) == (10, 0.8)
    assert bounds(found) == pytest.approx((0.490163, 0.943317), abs=1e-5)


def test_wilsons_interval_is_the_librarys(mean):
    from scipy.stats import binomtest

    expected = binomtest(31, 37).proportion_ci(0.95, method="wilson")
    assert bounds(mean([1] * 31 + [0] * 6)) == pytest.approx((expected.low, expected.high))


def test_all_passed_is_not_certainty(mean):
    # Wilson at p = 1: low = 1 / (1 + z²/n) = 1 / (1 + 3.841459 / 20)
    low, high = bounds(mean([1] * 20))
    assert low == pytest.approx(1 / (1 + 3.841459 / 20), abs=1e-6)
    assert high == pytest.approx(1)


def test_graded_scores_are_bootstrapped_with_a_fixed_seed(mean):
    scores = [0, 0.5, 1, 1] * 25
    found = mean(scores, 7)
    low, high = bounds(found)
    # The normal approximation: 0.625 ± 1.96 × sd / sqrt(n), sd = sqrt(0.171875)
    half = 1.96 * math.sqrt(0.171875 / 100)
    assert (low, high) == pytest.approx((0.625 - half, 0.625 + half), abs=0.01)
    assert found == mean(scores, 7)
    assert found != mean(scores, 8)


def test_equal_graded_scores_are_not_certainty(mean):
    # A 0 and a 1 are added to 30 of 0.5: sd of the mean √(2 × 0.25) / 32 = 0.0221
    low, high = bounds(mean([0.5] * 30))
    assert (low, high) == pytest.approx((0.5 - 2.05 * 0.0221, 0.5 + 2.05 * 0.0221), abs=0.006)


def test_scores_count_by_the_weight_of_their_category(mean):
    # 10 of weight 3 pass, 30 of weight 1 do not: the mean is 1/2. All of a value are of one weight, so the variance of
    # the mean is (10 × 9 + 30) × 1/4 / 60² = 1/120 and that of a value 1/4: 30 items.
    found = mean([1] * 10 + [0] * 30, weights=[3.0] * 10 + [1.0] * 30)
    assert found.mean == 0.5
    assert bounds(found) == pytest.approx(bounds(mean([1] * 15 + [0] * 15)))


def test_clusters_that_pass_or_fail_as_a_whole_count_once(mean):
    # 20 clusters of 4, 10 of them pass: 19 × 80/79 items, with t(19) = 2.093024
    found = mean(([1] * 4 + [0] * 4) * 10, clusters=fours(80))
    n, t = 19 * 80 / 79, 2.093024
    half = t * math.sqrt(0.25 / n + t * t / (4 * n * n)) / (1 + t * t / n)
    assert bounds(found) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)


def test_graded_scores_are_drawn_by_cluster(mean):
    scores = ([0.9] * 4 + [0.1] * 4) * 10
    wide, narrow = bounds(mean(scores, clusters=fours(80))), bounds(mean(scores))
    assert wide[1] - wide[0] == pytest.approx(2 * (narrow[1] - narrow[0]), rel=0.15)


def test_one_item_has_no_interval(mean):
    found = mean([1])
    assert found.mean == 1
    assert found.ci_low.value is None
    assert "at least 2" in (found.ci_low.reason or "")


def test_one_cluster_has_no_interval(mean, build):
    found = mean([1, 0, 1, 1], clusters=["document-1"] * 4)
    assert (found.n, found.mean) == (4, 0.75)
    assert found.ci_low.reason == "all items are of one document or conversation; an interval needs at least 2 of them"
    both = items(build, [1, 0, 1, 1], clusters=["document-1"] * 4)
    assert intervals.difference(both, both, 0).ci_high.value is None


def test_a_mean_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="no scores"):
        intervals.mean_interval([], 0)


def test_answers_all_alike_are_not_known_to_be_so_everywhere(build):
    # ± z² / (n + z²)
    both = build.items([1, 0] * 60)
    found = intervals.difference(both, both, 0)
    assert found.mean == 0
    assert bounds(found) == pytest.approx((-3.841459 / 123.841459, 3.841459 / 123.841459), abs=1e-6)


def test_whole_changes_have_tangos_interval(build):
    # 10 lost and 4 won of 100; see test_paired_proportions
    found = intervals.difference(build.items([0] * 10 + [1] * 90), build.items([1] * 10 + [0] * 4 + [1] * 86), 0)
    assert (found.n, found.mean) == (100, pytest.approx(-0.06))
    assert bounds(found) == pytest.approx(score_interval(0.1, 0.04, 100, 1.959964), abs=1e-6)


def test_a_paired_difference_uses_the_pairs_not_the_means(build):
    # 40 lost and 40 won of 1,000: mean 0; sd of the differences sqrt(0.08); 1.96 × sqrt(0.08 / 1000) = 0.01753,
    # while unpaired means near 0.5 would give ± 0.044.
    ours = build.items([0] * 40 + [1] * 40 + [1, 0] * 460)
    theirs = build.items([1] * 40 + [0] * 40 + [1, 0] * 460)
    found = intervals.difference(ours, theirs, 0)
    assert found.mean == 0
    assert bounds(found) == pytest.approx((-0.0175, 0.0175), abs=0.0005)


def test_changes_count_by_the_weight_of_their_category(build):
    # One of 10 of weight 3 and one of 30 of weight 1 are lost: (3 + 1) / 60
    weights = [3.0] * 10 + [1.0] * 30
    ours = items(build, [0] + [1] * 9 + [0] + [1] * 29, weights)
    found = intervals.difference(ours, items(build, [1] * 40, weights), 0)
    assert found.mean == pytest.approx(-4 / 60)
    # Σ (w (d - m))² / Σw²: (9 × (56² + 9 × 4²) + 56² + 29 × 4²) / 60⁴; variance of a value 4/60 × 56/60
    n = (4 * 56 / 3600) / ((9 * (56**2 + 9 * 4**2) + 56**2 + 29 * 4**2) / 60**4)
    assert n < 3600 / 120
    assert bounds(found) == pytest.approx(score_interval(4 / 60, 0, n, 1.959964), abs=1e-6)


def test_changes_of_a_cluster_are_drawn_together(build):
    ours = items(build, [0] * 8 + [1] * 72, clusters=fours(80))
    found = intervals.difference(ours, items(build, [1] * 80, clusters=fours(80)), 0)
    # 2 of 20 clusters lost as a whole: as many items, with t(19)
    assert bounds(found) == pytest.approx(score_interval(0.1, 0, 19 * 80 / 79, 2.093024), abs=1e-5)


def graded(build, size, changed, n=100, **layout):
    before, after = [1.0] * n, [1 - size] * changed + [1.0] * (n - changed)
    return intervals.difference(items(build, after, **layout), items(build, before, **layout), 0)


def test_graded_changes_are_bootstrapped_with_one_more_of_each_sign(build):
    # 20 of 100 lost a half: the added ones change by √((1 + 20 × 0.25) / 21) = 0.534522. Mean of the 102 -10/102,
    # variance (5 + 2 × 0.285714) / 102 - 0.009612 = 0.045012, so an sd of the mean of 0.021007; t(99) √(100/99) = 1.994
    low, high = bounds(graded(build, 0.5, 20))
    assert (low, high) == pytest.approx((-0.09804 - 1.994 * 0.021, -0.09804 + 1.994 * 0.021), abs=0.004)


def test_few_small_changes_are_not_certainty(build):
    # One change of 0.1: the added ones are √(1.01 / 2) = 0.71, not 0.1, so ± 0.02 and not ± 0.003
    low, high = bounds(graded(build, 0.1, 1))
    assert low is not None
    assert high is not None
    assert low < -0.015
    assert high > 0.01


def test_many_small_changes_are_known_well(build):
    # 100 alike: the added ones are √(2 / 101) = 0.14
    low, high = bounds(graded(build, 0.1, 100))
    assert (low, high) == pytest.approx((-0.1, -0.098 + 0.004), abs=0.003)


def test_graded_changes_are_drawn_by_cluster(build):
    wide, narrow = bounds(graded(build, 0.5, 20, clusters=fours(100))), bounds(graded(build, 0.5, 20))
    assert wide[1] - wide[0] == pytest.approx(2 * (narrow[1] - narrow[0]), rel=0.25)


def test_losses_alone_are_skewed_and_the_interval_follows(build):
    # 20 of 100 lost a half: the long tail is where more is lost, so the lower half is the wider one
    ours, theirs = build.items([0.5] * 20 + [1] * 80), build.items([1] * 100)
    observed = [change.observed for change in intervals.changes(ours, theirs)]
    size = math.sqrt(6 / 21)
    found = bounds(intervals.difference(ours, theirs, 0))
    assert found == observations.bca(observed, (size, -size), 0, 0.025)
    percentiles = observations.bootstrap(observed, (size, -size), 0, 0.025)
    assert found[0] < percentiles[0]
    assert found[1] < percentiles[1]


def test_scores_keep_their_percentiles(mean):
    scores = [0, 0.5, 1, 1] * 25
    observed = [Observation(score, 1.0, str(place)) for place, score in enumerate(scores)]
    assert bounds(mean(scores, 7)) == observations.bootstrap(observed, (0, 1), 7, 0.025)


def test_one_graded_change_or_cluster_has_no_interval(build):
    assert intervals.difference(build.items([0.5]), build.items([1]), 0).ci_low.value is None
    same = {"clusters": ["document-1"] * 4}
    ours, theirs = items(build, [0.5, 1, 1, 0.25], **same), items(build, [1] * 4, **same)
    found = intervals.difference(ours, theirs, 0)
    assert found.mean == pytest.approx(-0.3125)
    assert found.ci_low.value is None


def test_two_graded_clusters_have_a_wide_interval_around_the_mean(build):
    clusters = ["document-1"] * 2 + ["document-2"] * 2
    found = intervals.difference(items(build, [0.5, 0, 1, 1], clusters=clusters), items(build, [1] * 4), 0)
    low, high = bounds(found)
    assert low <= -0.75
    assert found.mean == pytest.approx(-0.375)
    assert high >= 0


def test_another_chance_of_an_error_gives_another_width(build):
    found = intervals.changes(build.items([0] * 10 + [1] * 90), build.items([1] * 100))
    wide, usual = bounds(intervals.of_changes(found, 0, 0.005)), bounds(intervals.of_changes(found, 0))
    assert wide == pytest.approx(score_interval(0.1, 0, 100, 2.575829), abs=1e-6)
    assert usual == pytest.approx(score_interval(0.1, 0, 100, 1.959964), abs=1e-6)


def test_pairs_are_found_by_item_id_not_by_place(build):
    both = build.items([1, 0, 1, 0])
    assert intervals.difference(both, both[::-1], 0).mean == 0


def test_other_items_are_refused(build):
    with pytest.raises(ValueError, match="same items"):
        intervals.difference(build.items([1, 0]), build.items([1, 0, 1]), 0)
    with pytest.raises(ValueError, match="at least one"):
        intervals.difference([], [], 0)


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


def test_a_set_without_an_interval_leaves_the_whole_without_one(build):
    one_item = intervals.mean_interval(build.items([1]), 0)
    found = intervals.weighted([(interval(90, 0.8, 0.7, 0.9), 1), (one_item, 1)])
    assert found.mean == pytest.approx(0.9)
    assert found.ci_high.value is None


def test_flips_are_lost_and_won(build):
    found = intervals.flips(build.items([0, 1, 1, 0.5]), build.items([1, 0, 1, 0.5]))
    assert [mine.item_id for mine, _ in found.lost] == ["item-000"]
    assert [mine.item_id for mine, _ in found.won] == ["item-001"]
