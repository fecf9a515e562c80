from __future__ import annotations

from dataclasses import replace

import pytest
from unit.metrics.catalogued import value

from pipeline.quality_records import FinishReason, Flaw


def test_what_is_wrong_with_the_answers_is_counted_over_all_sets(build):
    base = build.evidence("fp16", [1] * 4)
    sets = (
        build.scored(
            "int8",
            build.items([1, 0, 0, 1]),
            finish_reasons={FinishReason.STOP: 1, FinishReason.LENGTH: 2, FinishReason.CHOICE: 1},
            flaws={Flaw.EMPTY: 1, Flaw.REFUSAL: 2},
            over_context=["item-007", "item-008"],
        ),
        build.scored(
            "int8",
            build.items([1] * 5),
            "legal",
            finish_reasons={FinishReason.STOP: 5},
            flaws={Flaw.REFUSAL: 1, Flaw.DEGENERATE: 4},
            over_context=["item-009"],
        ),
    )
    ours = replace(build.evidence("int8", baseline=base), quality=sets)
    # A picked choice did not end in any way: 2 of 3 + 5
    assert value("length_finish_share", ours).value == 0.25
    names = ("empty_outputs", "refusals", "degenerate_outputs", "over_context_items")
    assert [value(name, ours).value for name in names] == [1, 3, 4, 3]
    assert [value(name, base).value for name in names] == [0] * 4


def test_answers_that_were_all_picked_have_no_length(build):
    picked = build.scored("int8", build.items([1, 0]), finish_reasons={FinishReason.CHOICE: 2})
    ours = replace(build.evidence("int8"), quality=(picked,))
    assert value("length_finish_share", ours).reason == "every answer was picked among choices"


def test_critical_items_that_were_lost(build):
    def answered(variant, scores):
        critical = [True, True, False, True]
        items = [build.item(f"item-{n}", score, critical=critical[n]) for n, score in enumerate(scores)]
        return (build.scored(variant, items),)

    base = replace(build.evidence("fp16"), quality=answered("fp16", [1, 1, 1, 0]))
    # Lost: one critical and one that is not; a critical one was won.
    ours = replace(build.evidence("int8", baseline=base), quality=answered("int8", [0, 1, 0, 1]))
    assert (value("critical_regressions", ours).value, value("flips_lost", ours).value) == (1, 2)
    assert value("critical_regressions", base).value == 0


def by_category(build, variant, sizes, **changes):
    """For each category as many lost items, and items in all."""
    items = [
        build.item(f"{category}-{n:03}", float(n >= lost), category=category)
        for category, (lost, count) in sizes.items()
        for n in range(count)
    ]
    return build.scored(variant, items, **changes)


def test_the_worst_category_is_a_metric_with_an_interval(build):
    sizes = {"refunds": (0, 30), "delivery": (0, 30)}
    base = replace(build.evidence("fp16"), quality=(by_category(build, "fp16", sizes),))
    lost = {"refunds": (6, 30), "delivery": (1, 30)}
    ours = replace(build.evidence("int8", baseline=base), quality=(by_category(build, "int8", lost),))
    assert value("worst_category_delta", ours).value == pytest.approx(-0.2)
    low, high = (value(f"worst_category_delta_ci_{end}", ours).value for end in ("low", "high"))
    found = ours.worst_category
    assert not isinstance(found, str)
    assert (low, high) == (found.interval.ci_low.value, found.interval.ci_high.value)
    assert low is not None
    assert high is not None
    assert low < -0.3 < high < 0
    ends = ("", "_ci_low", "_ci_high")
    assert [value(f"worst_category_delta{end}", base).value for end in ends] == [0, 0, 0]


def test_every_set_and_category_is_compared_with_the_baseline(build):
    base = build.evidence("fp16", [1, 1, 1, 0])
    ours = build.evidence("int8", [0, 1, 1, 0], baseline=base)
    assert base.comparisons == base.worst_category == "the baseline is not compared to itself"
    assert not isinstance(ours.comparisons, str)
    whole, *categories = ours.comparisons
    assert (whole.eval_set, whole.category, whole.n, whole.lost) == ("support-desk", None, 4, 1)
    assert {found.category for found in categories} == {"intent", "extraction", "policy"}
    lost = replace(ours, baseline=build.failed("fp16"))
    assert lost.comparisons == lost.worst_category == "fp16 was not scored on support-desk: there is no artifact"


def test_what_the_batch_alone_changes(build):
    base = build.evidence("fp16")
    ours = build.evidence("int8", baseline=base)
    floor, own = ours.noise_floor, base.noise_floor
    assert not isinstance(floor, str)
    assert not isinstance(own, str)
    assert (floor.items, floor.differing, own.items) == (48, 2, 24)
    assert replace(ours, baseline=build.failed("fp16")).noise_floor == (
        "fp16 was not scored on support-desk: there is no artifact"
    )


def test_the_baseline_is_its_own_measure_by_definition(build):
    base = build.evidence("fp16")
    named = ("quality_delta", "delta_ci_low", "delta_ci_high", "flips_lost", "flips_won")
    assert [value(name, base).value for name in named] == [0] * 5


def test_several_eval_sets_count_by_weight(build):
    base = build.evidence("fp16")

    def two_sets(first, second):
        return (
            build.scored("x", build.items(first), weight=3),
            build.scored("x", build.items(second), eval_set="legal", weight=1),
        )

    base = replace(base, quality=two_sets([1, 1, 1, 1], [1, 1]))
    ours = replace(build.evidence("int8", baseline=base), quality=two_sets([1, 1, 1, 0], [0, 0]))
    # 3/4 × 0.75 + 1/4 × 0; and 3/4 × -0.25 + 1/4 × -1
    assert value("quality", ours).value == pytest.approx(0.5625)
    assert value("quality_delta", ours).value == pytest.approx(-0.4375)
    assert value("flips_lost", ours).value == 3
