from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.diff import quality

SCORES = [1.0] * 6 + [0.0] * 4


def with_items(build, variant, items, **more):
    """A variant that was scored on these items."""
    return replace(build.evidence(variant), quality=(build.scored(variant, items), *more.values()))


def test_items_are_paired_by_id_not_by_place(build):
    before = build.items(SCORES)
    after = tuple(reversed(before))
    found = quality.pair("set", before, after)
    assert [(a.item_id, a.score) for a in found.before] == [(b.item_id, b.score) for b in found.after]
    assert (found.lost, found.won) == ([], [])


def test_only_items_that_were_asked_alike_are_compared(build):
    """Of five: one is alike, one has another prompt, one another target, one is gone, one is new."""
    before = [build.item(name, 1.0) for name in ("alike", "prompt", "target", "gone")]
    after = [
        build.item("alike", 0.0),
        build.item("prompt", 0.0, prompt_sha256="0" * 64),
        build.item("target", 0.0, target={"answer": "invoice"}),
        build.item("new", 1.0),
    ]
    found = quality.pair("set", before, after)
    assert [item.item_id for item in found.after] == ["alike"]
    assert (found.altered, found.new, found.gone) == (2, 1, 1)
    assert found.lost == ["alike"]


def test_the_same_variant_is_compared_with_its_interval_and_flips(reports, build, difference):
    """Of 100 items 5 were lost and 1 was won: −4 points; Tango's interval holds −10.2 to +1.2 or so."""
    scores = [1.0] * 60 + [0.0] * 40
    worse = [0.0] * 5 + scores[5:60] + [1.0] + scores[61:]
    a = reports.keep("a", build.evidence("fp16", scores), build.evidence("int8", scores))
    b = reports.keep("b", build.evidence("fp16", scores), build.evidence("int8", worse))
    found = {each.variant: each for each in difference(a, b).quality if each.eval_set is None}
    assert found["int8"].delta.value == pytest.approx(-0.04)
    assert -0.12 < found["int8"].delta.low < -0.08
    assert 0 < found["int8"].delta.high < 0.03
    assert found["int8"].lost == [f"support-desk/item-{n:03}" for n in range(5)]
    assert found["int8"].won == ["support-desk/item-060"]
    assert (found["fp16"].delta.value, found["fp16"].lost) == (0, [])


def test_the_order_of_items_changes_nothing(reports, build, difference):
    items = build.items([1.0] * 60 + [0.0] * 40)
    a = reports.keep("a", with_items(build, "fp16", items))
    b = reports.keep("b", with_items(build, "fp16", list(reversed(items))))
    (whole, part) = difference(a, b).quality
    assert (whole.same, whole.delta.value, whole.lost, whole.won) == (100, 0, [], [])
    assert part.eval_set == "support-desk"


def test_new_gone_and_altered_items_are_counted_and_left_out(reports, build, difference):
    old = build.items([1.0] * 10)
    new = [
        *old[2:9],
        old[9].model_copy(update={"prompt_sha256": "0" * 64, "score": 0.0, "passed": False}),
        build.item("fresh", 0.0),
    ]
    a = reports.keep("a", with_items(build, "fp16", old))
    b = reports.keep("b", with_items(build, "fp16", new))
    (whole, _) = difference(a, b).quality
    assert (whole.same, whole.new, whole.gone, whole.altered) == (7, 1, 2, 1)
    assert whole.delta.value == 0


def test_sets_count_by_their_weights_in_b(reports, build, project, difference):
    """One set falls by a whole, the other stays; the first weighs 3 of 4."""
    project.raw["eval_sets"] = {"support-desk": {"weight": 3.0}, "second": {"weight": 1.0}}
    before, after = [1.0] * 10, [0.0] * 10

    def scored(scores):
        first = build.scored("fp16", build.items(scores), weight=3)
        second = build.scored("fp16", build.items([1.0] * 10), "second")
        return replace(build.evidence("fp16"), quality=(first, second))

    a, b = reports.keep("a", scored(before)), reports.keep("b", scored(after))
    whole, *sets = difference(a, b).quality
    assert whole.delta.value == pytest.approx(-0.75)
    assert {each.eval_set: each.delta.value for each in sets} == {"support-desk": -1, "second": 0}


def test_no_item_in_common(reports, build, difference):
    a = reports.keep("a", with_items(build, "fp16", [build.item("old-1", 1.0), build.item("old-2", 0.0)]))
    b = reports.keep("b", with_items(build, "fp16", [build.item("new-1", 1.0), build.item("new-2", 0.0)]))
    (whole, _) = difference(a, b).quality
    assert (whole.same, whole.new, whole.gone, whole.delta.value) == (0, 2, 2, None)
    assert whole.delta.reason == "no item was asked alike in both"
