from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pipeline.metrics.axes import Plain, parse_axis
from pipeline.metrics.scope import Measured
from pipeline.records import known, missing
from pipeline.report import apart, rows, score
from pipeline.report.gather import Gathered
from pipeline.report.score import Score, Weight

SCORES = [1.0] * 72 + [0.0] * 48


def table(project, build, *variants):
    """Rows by variant; the first one is the baseline."""
    params = project.write(*variants)
    linked = (variants[0], *(replace(each, baseline=variants[0]) for each in variants[1:]))
    return {row.variant: row for row in rows.build(params, Gathered(linked, build.environment, ()))}


def given(monkeypatch, ratios):
    """Improvements by the name of their axis, instead of measured ones."""
    monkeypatch.setattr(score, "improvement", lambda row, baseline, axis: ratios[axis.name])


def ratio(value, low=None, high=None):
    return Measured(known(value), low and known(low), high and known(high))


def numbers(found: Score):
    return found.value.value, found.low.value, found.high.value


def test_the_worked_example_of_the_docs(monkeypatch):
    """Twice as soon at a weight of 1, 1.25 times as fast at a weight of 2: 2^(1/3) × 1.25^(2/3)."""
    given(monkeypatch, {"ttft_speedup": ratio(2.0, 1.6, 2.5), "speedup": ratio(1.25, 1.2, 1.3)})
    found = score.of(None, None, score.shares({"ttft_speedup": 1, "speedup": 2}))
    value, low, high = numbers(found)
    assert value == pytest.approx(1.4620, abs=5e-5)
    below = math.sqrt((math.log(2 / 1.6) / 3) ** 2 + (2 * math.log(1.25 / 1.2) / 3) ** 2)
    above = math.sqrt((math.log(2.5 / 2) / 3) ** 2 + (2 * math.log(1.3 / 1.25) / 3) ** 2)
    assert (low, high) == pytest.approx((value / math.exp(below), value * math.exp(above)))
    assert (low, high) == pytest.approx((1.3507, 1.5819), abs=5e-5)


def test_only_the_proportions_of_weights_count():
    small, large = (score.shares({"ttft_speedup": n, "speedup": 2 * n}) for n in (1, 50))
    assert [(each.axis.name, each.share) for each in small] == [
        ("ttft_speedup", pytest.approx(1 / 3)),
        ("speedup", pytest.approx(2 / 3)),
    ]
    assert [each.share for each in large] == pytest.approx([each.share for each in small])


def test_one_reading_under_two_names_is_counted_once(monkeypatch):
    """Rate and cost on one workload are one ratio: its interval stays as wide as it is, not divided by √2."""
    given(monkeypatch, {"aggregate_speedup": ratio(2.0, 1.0, 4.0)})
    weights = score.shares({"aggregate_tokens_per_s": 1, "cost_per_million_tokens": 1})
    assert numbers(score.of(None, None, weights)) == pytest.approx((2.0, 1.0, 4.0))


def test_one_axis_under_three_names_is_counted_once(monkeypatch):
    given(monkeypatch, {"speedup": ratio(2.0, 1.0, 4.0)})
    plain = Plain("instruction", {"instruction": 1, "code": 4}, ["a", "b"])
    weights = score.shares({"speedup": 1, "speedup@instruction": 1, "speedup@instruction:1": 2}, plain)
    assert weights == (Weight(parse_axis("speedup"), 1.0),)
    assert numbers(score.of(None, None, weights)) == pytest.approx((2.0, 1.0, 4.0))


def test_an_axis_without_an_interval_counts_as_known(monkeypatch):
    given(monkeypatch, {"weight_bytes": ratio(4.0), "speedup": ratio(1.0, 0.5, 2.0)})
    weights = score.shares({"weight_bytes": 1, "speedup": 1})
    assert numbers(score.of(None, None, weights)) == pytest.approx((2.0, 2 / math.sqrt(2), 2 * math.sqrt(2)))


def test_a_missing_value_leaves_no_score_and_a_missing_interval_none_to_the_score(monkeypatch):
    few = missing("few processes")
    ratios = {"weight_bytes": ratio(4.0), "speedup": Measured(known(1.0), few, few)}
    given(monkeypatch, ratios)
    weights = score.shares({"weight_bytes": 1, "speedup": 1})
    found = score.of(None, None, weights)
    assert found.value.value == pytest.approx(2)
    assert found.low == found.high == missing("Decode speed vs baseline: few processes")
    ratios["weight_bytes"] = Measured(missing("not made"))
    gone = missing("no score without Weights on disk: not made")
    assert score.of(None, None, weights) == Score(gone, gone, gone)


def test_better_is_above_one_in_either_direction(project, build):
    fp16 = build.evidence("fp16", SCORES)
    ours = build.evidence("int8", SCORES, tpot_s=0.1, weight_bytes=257 * 2**18, peak_bytes=1800 * 2**20)
    by_name = table(project, build, fp16, ours)

    def improved(variant, name):
        (weight,) = score.shares({name: 1})
        found = score.improvement(by_name[variant], by_name["fp16"], weight.axis)
        return found.value.value, found.low and found.low.value, found.high and found.high.value

    assert improved("int8", "weight_bytes") == (4.0, None, None)
    assert improved("int8", "peak_memory_bytes") == (0.5, None, None)
    spread = 1.02839
    slower = pytest.approx((0.5, 0.5 / spread, 0.5 * spread), rel=1e-4)
    # Decode rate and TPOT are judged by the ratio measured in turns; of work per token less is better.
    assert improved("int8", "speedup") == improved("int8", "tpot_s_p50") == slower
    assert improved("int8", "decode_cost_ratio") == slower
    assert improved("fp16", "speedup") == improved("fp16", "decode_cost_ratio") == (1.0, 1.0, 1.0)


def test_the_ratio_of_two_qualities_has_the_interval_of_their_paired_difference(project, build):
    by_name = table(project, build, build.evidence("fp16", SCORES), build.evidence("int4", [0.0] * 8 + SCORES[8:]))
    (weight,) = score.shares({"quality": 1})
    found = score.improvement(by_name["int4"], by_name["fp16"], weight.axis)
    delta = apart.difference(by_name["int4"], by_name["fp16"], weight.axis)
    assert found.value.value == pytest.approx(64 / 72)
    assert (found.low.value, found.high.value) == pytest.approx(
        (1 + delta.ci_low.value / 0.6, 1 + delta.ci_high.value / 0.6)
    )
    same = score.improvement(by_name["fp16"], by_name["fp16"], weight.axis)
    assert same == Measured(known(1.0))


def test_two_measured_values_have_a_ratio_with_the_interval_of_both(project, build):
    """P95 of 101 requests each, of which the slower ones of int8 take twice as long."""
    times = {"fp16": (0.1, 0.2), "int8": (0.1, 0.4)}
    variants = []
    for name, (most, some) in times.items():
        pairs = [
            pair.model_copy(update={"variant": build.request(ttft_s=some * (1 + place / 100) if place % 4 else most)})
            for place, pair in enumerate(build.pairs(build.request(), build.request(), each=34))
        ]
        variants.append(replace(build.evidence(name, SCORES), speed=build.speed(name, [build.workload(pairs=pairs)])))
    by_name = table(project, build, *variants)
    (weight,) = score.shares({"ttft_s_p95": 1})
    ours, theirs = (by_name[name].measure(weight.axis.metric) for name in ("int8", "fp16"))
    found = score.improvement(by_name["int8"], by_name["fp16"], weight.axis)
    value, low, high = found.value.value, found.low.value, found.high.value
    assert value == pytest.approx(theirs.value.value / ours.value.value)
    # Less is better, so the upper ends of int8 and the lower ones of fp16 make the lower end.
    worse = math.hypot(math.log(ours.high.value / ours.value.value), math.log(theirs.value.value / theirs.low.value))
    better = math.hypot(math.log(ours.value.value / ours.low.value), math.log(theirs.high.value / theirs.value.value))
    assert (low, high) == pytest.approx((value / math.exp(worse), value * math.exp(better)))
    assert score.improvement(by_name["fp16"], by_name["fp16"], weight.axis) == Measured(known(1.0))


def test_nothing_is_relative_to_nothing(project, build):
    by_name = table(project, build, build.evidence("fp16", [0.0, 0.0]), build.evidence("int4", [1.0, 1.0]))
    (weight,) = score.shares({"quality": 1})
    found = score.improvement(by_name["int4"], by_name["fp16"], weight.axis)
    assert found.value.reason == "100.0 % against 0.0 % has no ratio"


# --- told apart ------------------------------------------------------------------------------------------------


def scored(value, factor):
    return Score(known(value), known(value / factor), known(value * factor))


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        # Within 5 % of the larger one, however well both are known.
        (scored(1.0, 1.001), scored(1.052, 1.001), False),
        (scored(1.0, 1.001), scored(1.054, 1.001), True),
        # ln 1.2 = 0.182 against √(0.13² + 0.13²) = 0.184, then √(0.12² + 0.12²) = 0.170: the intervals overlap in both.
        (scored(1.0, math.exp(0.13)), scored(1.2, math.exp(0.13)), False),
        (scored(1.0, math.exp(0.12)), scored(1.2, math.exp(0.12)), True),
        (scored(1.0, 1.01), Score(known(2.0), missing("few"), missing("few")), False),
        (scored(1.0, 1.01), Score(missing("no"), missing("no"), missing("no")), False),
    ],
)
def test_scores_are_told_apart_beyond_both_the_tie_and_their_intervals(one, other, apart):
    assert one.told_apart(other, 0.05) is apart
    assert other.told_apart(one, 0.05) is apart
