from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.metrics.axes import parse_axis
from pipeline.quality_records import Invariance
from pipeline.report import apart, rows
from pipeline.report.apart import Estimate
from pipeline.report.gather import Gathered

SCORES = [1.0] * 72 + [0.0] * 48
LOST_8 = [0.0] * 8 + SCORES[8:]


@pytest.fixture
def table(project, build):
    """Rows by variant, with the first one as the baseline."""

    def make(*variants):
        params = project.write(*variants)
        linked = (variants[0], *(replace(each, baseline=variants[0]) for each in variants[1:]))
        return {row.variant: row for row in rows.build(params, Gathered(linked, build.environment, ()))}

    return make


def clear(found, one, other, axis, tie=0.05):
    return apart.clearly_better(found[one], found[other], parse_axis(axis), tie)


def test_the_interval_of_a_difference_is_that_of_independent_estimates():
    # 3 and 4 in quadrature are 5, less than the 7 by which intervals would have to be apart not to overlap.
    one, other = Estimate(10.1, 7.1, 99), Estimate(5.0, -99, 9.0)
    assert one.above(other)
    assert not Estimate(9.9, 6.9, 99).above(other)
    assert not other.above(one)
    assert not Estimate(10.1, None, None).above(other)
    assert not one.above(Estimate(5.0, None, None))


def test_any_difference_of_what_is_counted_is_one(table, build):
    found = table(build.evidence("fp16", SCORES), build.evidence("less", SCORES, weight_bytes=257 * 2**20 - 1))
    assert clear(found, "less", "fp16", "weight_bytes")
    assert not clear(found, "fp16", "less", "weight_bytes")
    assert apart.compared(found["fp16"], found["less"], parse_axis("weight_bytes")) == (
        "Weights on disk 269,484,032 bytes against 269,484,031 bytes of less"
    )


def test_what_is_measured_without_an_interval_must_differ_by_more_than_the_tie(table, build):
    # 4 and 6 % of 1000 MiB
    peaks = {"fp16": 1000, "near": 960, "far": 940}
    found = table(*(build.evidence(name, SCORES, peak_bytes=peak * 2**20) for name, peak in peaks.items()))
    assert not clear(found, "near", "fp16", "peak_memory_bytes")
    assert clear(found, "far", "fp16", "peak_memory_bytes")
    assert clear(found, "near", "fp16", "peak_memory_bytes", tie=0.03)


def test_only_values_without_an_interval_are_level(table, build):
    # Memory, bytes and speed differ by 4 %, the scores by 8 of 72 items.
    near = build.evidence("near", LOST_8, tpot_s=0.052, peak_bytes=960 * 2**20, weight_bytes=960 * 2**20)
    found = table(build.evidence("fp16", SCORES, peak_bytes=1000 * 2**20, weight_bytes=1000 * 2**20), near)
    axes = ("peak_memory_bytes", "weight_bytes", "speedup", "quality")
    level = {axis: apart.level(found["fp16"], found["near"], parse_axis(axis), 0.2) for axis in axes}
    assert level == {"peak_memory_bytes": True, "weight_bytes": False, "speedup": False, "quality": False}


def test_ratios_are_told_apart_by_the_interval_of_their_quotient(table, build):
    """Three processes alike have e^± 0.028 around each: two ratios are apart from e^0.0396 = 1.040 on."""
    speeds = {"fp16": 1.0, "a": 1.5, "near": 1.5 * 1.038, "far": 1.5 * 1.042}
    found = table(*(build.evidence(name, SCORES, tpot_s=0.05 / speed) for name, speed in speeds.items()))
    assert not clear(found, "near", "a", "speedup")
    assert clear(found, "far", "a", "speedup")
    assert not clear(found, "a", "far", "speedup")
    # The baseline is 1 by definition: nothing is added to the variant's own interval.
    assert clear(found, "a", "fp16", "speedup")
    # Rates and times are judged by the ratio, of which more is better.
    assert clear(found, "far", "a", "tpot_s_p50")
    assert not clear(found, "near", "a", "decode_tokens_per_s")


def test_of_a_ratio_that_should_be_small_the_smaller_is_better(table, build):
    made = [build.evidence(name, SCORES) for name in ("fp16", "good", "bad")]
    nearness = {"fp16": 0.0, "good": 0.1, "bad": 0.2}
    blocks = {name: [build.block(kld=kld * factor) for factor in (0.9, 1.1)] * 16 for name, kld in nearness.items()}
    found = table(*(replace(each, fidelity=build.fidelity(each.variant, blocks[each.variant])) for each in made))
    assert clear(found, "good", "bad", "kld_mean")
    assert not clear(found, "bad", "good", "kld_mean")


def test_scores_are_compared_item_by_item(table, build):
    """8 of 120 items lost and none won is clear, though 60 % (51 to 68 %) and 53 % (44 to 62 %) overlap."""
    found = table(build.evidence("fp16", LOST_8), build.evidence("a", SCORES), build.evidence("b", LOST_8))
    assert clear(found, "a", "b", "quality")
    assert clear(found, "a", "b", "quality_delta")
    assert clear(found, "a", "b", "quality@support-desk")
    assert apart.compared(found["b"], found["a"], parse_axis("quality")) == (
        "Quality −6.7 pp (−12.6 to −3.4 pp) on the same items"
    )
    # 3 items won: (3 - 0) / √3 = 1.73 is less than 1.96.
    found = table(build.evidence("fp16", LOST_8), build.evidence("a", [0.0] * 5 + SCORES[5:]))
    assert not clear(found, "a", "fp16", "quality")


def test_a_pair_is_compared_once_on_each_part(table, build):
    """However often it is asked: the trade-off plots ask for every pair of axes."""
    found = table(build.evidence("fp16", SCORES), build.evidence("a", LOST_8), build.evidence("b", LOST_8))
    part = parse_axis("quality@support-desk").scope
    once = found["a"].against(found["fp16"], part)
    assert replace(found["a"], on_frontier=True).against(found["fp16"], part) is once
    others = [found["a"].against(found["fp16"]), found["a"].against(found["b"], part), found["b"].against(found["a"])]
    assert len({id(each) for each in (once, *others)}) == 4
    assert [(each.variant, each.baseline.variant) for each in others] == [("a", "fp16"), ("a", "b"), ("b", "a")]


def test_a_difference_that_the_batch_alone_may_make_is_none(table, build):
    """2 of 24 answers flip with the batch: the difference moves by 1.96 × √(2 × 2/24 / 120), 7.3 points."""
    flips = Invariance(items=24, differing=4, flips=["item-001", "item-002"])

    def noisy(evidence):
        scored = evidence.quality[0]
        record = scored.record.model_copy(update={"invariance": flips})
        return replace(evidence, quality=(replace(scored, record=record),))

    noisy_ones = (noisy(build.evidence(name, scores)) for name, scores in (("a", SCORES), ("b", LOST_8)))
    found = table(build.evidence("fp16", SCORES), *noisy_ones)
    assert not clear(found, "a", "b", "quality")
    # Of fp16 no answer flips: 1.96 × √(2/24 / 120) is 5.2 points, less than the 6.7 between them.
    assert clear(found, "fp16", "b", "quality")


def test_a_missing_interval_tells_nothing_apart(table, build):
    few = build.pairs(build.request(tpot_s=0.01), build.request(), processes=2)
    ours = replace(build.evidence("int8", SCORES), speed=build.speed("int8", [build.workload(pairs=few)]))
    found = table(build.evidence("fp16", SCORES), ours)
    assert apart.better(found["int8"], found["fp16"], parse_axis("speedup"))
    assert not clear(found, "int8", "fp16", "speedup")
