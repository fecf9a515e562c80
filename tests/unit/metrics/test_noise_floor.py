"""What the batch alone changes."""

from __future__ import annotations

import numpy
import pytest

from pipeline.metrics.noise_floor import NoiseFloor, noise_floor
from pipeline.quality_records import Invariance


def asked_again(build, variant, items, differing, flips, eval_set="support-desk"):
    invariance = Invariance(items=items, differing=differing, flips=[f"item-{place:03}" for place in range(flips)])
    return build.scored(variant, build.items([1, 1, 0]), eval_set, invariance=invariance).record


def test_the_flips_of_both_sides_add_up(build):
    """Of 3 items that are scored: 1.96 × √(1/20 / 3 + 1/25 / 3)."""
    found = noise_floor([(asked_again(build, "int8", 20, 3, 1), 1.0)], [(asked_again(build, "fp16", 25, 2, 1), 1.0)])
    assert not isinstance(found, str)
    assert found == NoiseFloor(items=45, differing=5, flips=2, delta=pytest.approx(0.33947, abs=1e-5))
    assert found.differing_share == pytest.approx(5 / 45)
    assert (found.holds(-0.339), found.holds(0.339), found.holds(-0.34)) == (True, True, False)


def test_sets_count_by_their_weight(build):
    ours = [(asked_again(build, "int8", 20, 1, 1), 3.0), (asked_again(build, "int8", 10, 2, 2, "legal"), 1.0)]
    theirs = [(asked_again(build, "fp16", 20, 0, 0), 3.0), (asked_again(build, "fp16", 10, 1, 0, "legal"), 1.0)]
    found = noise_floor(ours, theirs)
    assert not isinstance(found, str)
    # 1.96 × √(9/16 × 1/20 / 3 + 1/16 × 2/10 / 3)
    assert found.delta == pytest.approx(0.22808, abs=1e-5)
    assert (found.items, found.differing, found.flips) == (60, 4, 3)


def test_the_batch_alone_moves_a_mean_this_far_in_95_of_100_cases(build):
    """Simulated: each of 200 items flips up or down with probability 0.1 on either side."""
    rng = numpy.random.default_rng(1)
    moved = rng.choice([-1, 0, 1], p=[0.05, 0.9, 0.05], size=(20_000, 400)) @ ([1 / 200] * 200 + [-1 / 200] * 200)
    invariance = Invariance(items=10, differing=1, flips=["item-000"])
    sides = [(build.scored(name, build.items([1] * 200), invariance=invariance).record, 1.0) for name in ("a", "b")]
    found = noise_floor(sides[:1], sides[1:])
    assert not isinstance(found, str)
    assert numpy.mean(numpy.abs(moved) <= found.delta) == pytest.approx(0.95, abs=0.01)


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
