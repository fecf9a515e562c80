"""Tests of variant against baseline on the same items."""

from __future__ import annotations

import pytest

from pipeline.metrics import intervals, paired_tests, power
from pipeline.metrics.intervals import TAIL
from pipeline.metrics.paired_tests import PairedSet, PairedTest, holm, mcnemar_mid_p


def paired(build, before, after, name="support-desk", **changes):
    """Items of one category unless `categories` says more; `clusters` and `weights` likewise, one for each item."""
    per_item = {key: changes.pop(many) for key, many in FIELDS.items() if many in changes}

    def side(scores):
        return [
            build.item(f"item-{place:03}", score, **changes, **{key: many[place] for key, many in per_item.items()})
            for place, score in enumerate(scores)
        ]

    return PairedSet(name, side(after), side(before))


FIELDS = {"category": "categories", "cluster": "clusters", "weight": "weights", "critical": "criticals"}


def p_of(part: PairedSet) -> tuple[float, PairedTest]:
    return paired_tests.p_value(part.changes(), 0)


def test_mcnemars_mid_p_by_hand():
    # 8 flips, 1 won: 2 (1 + 8) / 2^8 - 8 / 2^8 = 10 / 256
    assert mcnemar_mid_p(7, 1) == mcnemar_mid_p(1, 7) == pytest.approx(10 / 256)
    # 6 flips, half and half: 1 - (20 / 64) / 2
    assert mcnemar_mid_p(3, 3) == pytest.approx(1 - 10 / 64)
    # 5 lost, none won: 2 × (1 / 32) / 2
    assert mcnemar_mid_p(5, 0) == pytest.approx(1 / 32)
    # One item alone: 2 × (1 / 2) - 1 / 2
    assert mcnemar_mid_p(1, 0) == pytest.approx(0.5)
    assert mcnemar_mid_p(0, 0) == 1


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.06
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9, 0.001]) == pytest.approx([1, 1, 0.003])
    assert holm([]) == []


def test_pass_fail_items_have_mcnemars_test(build):
    p, test = p_of(paired(build, [1] * 10, [0] * 7 + [1] * 3))
    assert (p, test) == (pytest.approx(1 / 128), PairedTest.MCNEMAR)


def test_graded_items_have_the_permutation_test(build):
    # Three changes of -0.5: all of one sign in 2 of 8 permutations.
    p, test = p_of(paired(build, [0.5, 1, 1, 1, 0], [0, 0.5, 0.5, 1, 0]))
    assert (p, test) == (pytest.approx(2 / 8), PairedTest.PERMUTATION)
    # 0.5, 0.5, -0.5: every sum is at most 1.5 and at least 0.5 away from 0.
    assert p_of(paired(build, [0.5, 0.5, 1], [1, 1, 0.5]))[0] == 1


def test_sizes_count_in_the_permutation_test(build):
    # 1, 1, 1, -0.25: a sum of 2.75 or more in 2 of 16 sign changes, and as far below in as many.
    p, _ = p_of(paired(build, [0, 0, 0, 0.25], [1, 1, 1, 0]))
    assert p == pytest.approx(4 / 16)


def test_items_of_a_cluster_change_sign_together(build):
    # Alone, 6 lost of 6 are 2 / 64 at mid-p 1 / 64; in two clusters of 3 they are 2 signs of 4.
    before, after = [1] * 6 + [0] * 4, [0] * 10
    clusters = ["a"] * 3 + ["b"] * 3 + [None] * 4
    assert p_of(paired(build, before, after))[0] == pytest.approx(1 / 64)
    p, test = p_of(paired(build, before, after, clusters=clusters))
    assert (p, test) == (pytest.approx(2 / 4), PairedTest.CLUSTER_PERMUTATION)


def test_clusters_whose_changes_cancel_say_nothing(build):
    p, _ = p_of(paired(build, [1, 0, 1, 1], [0, 1, 1, 1], clusters=["a", "a", "b", "b"]))
    assert p == 1


def test_weights_count_in_the_test(build):
    # Sums of ±3 ±3 ±1 ±1 ±1 of at most -3: 8 with both lost, 1 with either of them; as many of at least 3.
    part = paired(build, [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], weights=[3, 3, 1, 1, 1])
    p, test = p_of(part)
    assert test is PairedTest.PERMUTATION
    assert p == pytest.approx(2 * 10 / 32)


def test_many_changes_are_permuted_at_random_with_a_fixed_seed(build):
    part = paired(build, [0.5] * 40, [0.5 + 0.01 * (place - 16) for place in range(40)])
    p, _ = p_of(part)
    assert p == p_of(part)[0] != paired_tests.p_value(part.changes(), 1)[0]
    # Sum of d = 1.4, of d² = 0.582: z = 1.835, p = 0.0665
    assert p == pytest.approx(0.0665, abs=0.012)


def two_sets(build):
    desk = paired(
        build,
        [1] * 20 + [1, 1, 0, 0] * 5,
        [0] * 8 + [1] * 12 + [1, 1, 0, 0] * 5,
        categories=["refunds"] * 20 + ["delivery"] * 20,
    )
    legal = paired(build, [1] * 10, [1] * 9 + [0], name="legal", category="contracts")
    return [desk, legal]


def test_every_set_and_every_category_is_compared(build):
    found = paired_tests.compare(two_sets(build), 0)
    assert [(each.eval_set, each.category) for each in found] == [
        ("support-desk", None),
        ("legal", None),
        ("support-desk", "refunds"),
        ("support-desk", "delivery"),
        ("legal", "contracts"),
    ]
    desk, _, refunds, delivery, contracts = found
    assert (desk.n, desk.lost, desk.won, desk.delta.mean) == (40, 8, 0, -0.2)
    assert (refunds.n, refunds.lost, refunds.delta.mean) == (20, 8, -0.4)
    assert (contracts.n, contracts.lost, contracts.test) == (10, 1, PairedTest.MCNEMAR)
    # Sets: 1/256 of two; categories: 1/256 of three, 1/2 of two and, without a flip, 1.
    assert (desk.p, desk.p_holm) == pytest.approx((1 / 256, 2 / 256))
    assert (refunds.p, refunds.p_holm) == pytest.approx((1 / 256, 3 / 256))
    assert (delivery.p, contracts.p, contracts.p_holm) == pytest.approx((1, 0.5, 1))
    part = two_sets(build)[0]
    assert desk.delta == intervals.difference(part.ours, part.theirs, 0)


def test_what_could_be_detected_is_said_for_each(build):
    desk, *_, contracts = paired_tests.compare(two_sets(build), 0)
    assert desk.detectable_drop.value == pytest.approx(power.detectable_drop(40, 0.2))
    assert contracts.detectable_drop.value == pytest.approx(power.detectable_drop(10, 0.1))
    [tiny, _] = paired_tests.compare([paired(build, [1, 1], [1, 0], category="tiny")], 0)
    assert "no drop with fewer than 4 items" in (tiny.detectable_drop.reason or "")
    clusters = [str(place // 4) for place in range(40)]
    alike = paired(build, [1] * 40, [0] * 8 + [1] * 32, clusters=clusters, category="documents")
    [whole, _] = paired_tests.compare([alike], 0)
    # 10 clusters that change together are 9 × 40 / 39 items.
    assert whole.detectable_drop.value == pytest.approx(power.detectable_drop(9 * 40 / 39, 0.2))


def test_the_worst_category_is_that_of_the_lowest_mean(build):
    parts = two_sets(build)
    found = paired_tests.worst_category(parts, 0)
    assert (found.worst.eval_set, found.worst.category, found.interval.n) == ("support-desk", "refunds", 20)
    assert found.interval.mean == -0.4
    assert [each.category for each in found.categories] == ["refunds", "delivery", "contracts"]
    refunds = parts[0].changes("refunds")
    assert found.interval.ci_low == intervals.of_changes(refunds, 0).ci_low
    # Of three categories: the upper end errs in 2.5 % / 3 of cases.
    assert found.interval.ci_high == intervals.of_changes(refunds, 0, TAIL / 3).ci_high
    assert found.worst.interval == intervals.of_changes(refunds, 0)


def test_the_low_end_is_that_of_any_category(build):
    """A few items may hide a larger drop than many that lost more."""
    many = paired(build, [1] * 200, [0] * 20 + [1] * 180, category="many")
    few = paired(build, [1] * 6, [1] * 6, name="legal", category="few")
    found = paired_tests.worst_category([many, few], 0)
    assert (found.worst.category, found.interval.mean) == ("many", -0.1)
    assert found.interval.ci_low == intervals.of_changes(few.changes(), 0).ci_low
    assert found.interval.ci_high == intervals.of_changes(many.changes(), 0, TAIL / 2).ci_high


def test_a_category_of_one_item_does_not_hide_the_others(build):
    part = paired(build, [1] * 11, [0] + [1] * 10, categories=["single"] + ["rest"] * 10)
    assert [each.category for each in paired_tests.worst_category([part], 0).categories] == ["rest"]
    only = paired(build, [1], [0])
    assert "one item" in (paired_tests.worst_category([only], 0).interval.ci_low.reason or "")
    with pytest.raises(ValueError, match="no worst category"):
        paired_tests.worst_category([], 0)
