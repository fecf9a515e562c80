"""What the batch alone changes."""

from __future__ import annotations

import pytest

from pipeline.metrics.noise_floor import NoiseFloor, noise_floor
from pipeline.quality_records import Invariance


def asked_again(build, variant, items, differing, flips, eval_set="support-desk"):
    invariance = Invariance(items=items, differing=differing, flips=[f"item-{place:03}" for place in range(flips)])
    return build.scored(variant, build.items([1, 1, 0]), eval_set, invariance=invariance).record


def test_the_flips_of_both_sides_add_up(build):
    found = noise_floor([(asked_again(build, "int8", 20, 3, 1), 1.0)], [(asked_again(build, "fp16", 25, 2, 1), 1.0)])
    assert not isinstance(found, str)
    assert found == NoiseFloor(items=45, differing=5, flips=2, delta=pytest.approx(1 / 20 + 1 / 25))
    assert found.differing_share == pytest.approx(5 / 45)
    assert (found.holds(-0.09), found.holds(0.09), found.holds(-0.0901)) == (True, True, False)


def test_sets_count_by_their_weight(build):
    ours = [(asked_again(build, "int8", 20, 1, 1), 3.0), (asked_again(build, "int8", 10, 2, 2, "legal"), 1.0)]
    theirs = [(asked_again(build, "fp16", 20, 0, 0), 3.0), (asked_again(build, "fp16", 10, 1, 0, "legal"), 1.0)]
    found = noise_floor(ours, theirs)
    assert not isinstance(found, str)
    # 3/4 × 1/20 + 1/4 × 2/10
    assert found.delta == pytest.approx(0.0875)
    assert (found.items, found.differing, found.flips) == (60, 4, 3)


def test_the_baseline_alone_and_no_flip_at_all(build):
    found = noise_floor([(asked_again(build, "fp16", 24, 0, 0), 1.0)], [])
    assert found == NoiseFloor(items=24, differing=0, flips=0, delta=0.0)
    assert not isinstance(found, str)
    assert (found.holds(0.0), found.holds(0.001)) == (True, False)


def test_without_items_asked_again_it_is_not_known(build):
    ours = asked_again(build, "int8", 24, 0, 0)
    theirs = build.scored("fp16", build.items([1, 0]), invariance=None).record
    reason = "no items of fp16 on support-desk were asked again one by one (evaluate.invariance_items)"
    assert noise_floor([(ours, 1.0)], [(theirs, 1.0)]) == reason
    assert noise_floor([(theirs, 1.0)], [(ours, 1.0)]) == reason
