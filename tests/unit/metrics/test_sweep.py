from __future__ import annotations

import pytest

from pipeline.metrics import sweep
from pipeline.metrics.sweep import Objective, Versus

OBJECTIVE = Objective(ttft_s=0.5, tpot_s=0.1)


@pytest.fixture
def level(build):
    """A level whose variant has this TTFT and TPOT; the baseline has 0.1 s and 50 ms."""

    def make(concurrency: int, tpot_s: float = 0.05, **changes):
        return build.workload(tpot_s=tpot_s, concurrency=concurrency, **changes)

    return make


def test_figures_of_a_level(level):
    # 32 tokens: TTFT 0.1 s + 31 × 0.05 s = 1.65 s; 4 streams give 128 tokens in that time
    only = sweep.summarize([level(4)], OBJECTIVE, 0).levels[0]
    assert only.aggregate_tokens_per_s.value == pytest.approx(128 / 1.65)
    assert only.decode_tokens_per_s.value == pytest.approx(20)
    assert only.ttft_s_p50.value == pytest.approx(0.1)
    assert only.ttft_s_p95.value == pytest.approx(0.1)
    assert only.power.value == pytest.approx(128 / 1.65 / 1.65)
    # 4 requests per 1.65 s, all good
    assert only.goodput_requests_per_s.value == pytest.approx(4 / 1.65)


def test_p95_is_refused_where_there_are_few_requests(build, level):
    few = level(2, pairs=build.pairs(build.request(), build.request(), each=1))
    only = sweep.summarize([few], OBJECTIVE, 0).levels[0]
    assert only.ttft_s_p50.value == pytest.approx(0.1)
    assert only.ttft_s_p95.reason == "P95 needs 20 readings, there are 3"


def test_goodput_counts_turns_that_meet_both_over_the_time_of_all(build, level):
    # Good: 1.65 s. TTFT too long: 0.6 + 31 × 0.05 = 2.15 s. TPOT too long: 0.1 + 31 × 0.2 = 6.3 s.
    # At the very limit of both: 0.5 + 31 × 0.1 = 3.6 s, good.
    requests = [build.request(), build.request(0.6), build.request(0.1, 0.2), build.request(0.5, 0.0999999)]
    pairs = [pair for request in requests for pair in build.pairs(request, None, processes=1, each=1)]
    only = sweep.summarize([level(3, pairs=pairs)], OBJECTIVE, 0).levels[0]
    assert only.goodput_requests_per_s.value == pytest.approx(3 * 2 / (1.65 + 2.15 + 6.3 + 3.6), rel=1e-5)


def test_an_objective_that_is_just_met_is_met(build, level):
    request = build.request(0.5, 0.25, tokens=3)
    exact = level(1, pairs=build.pairs(request, None), output_tokens=3)
    assert sweep.summarize([exact], Objective(0.5, 0.25), 0).levels[0].goodput_requests_per_s.value == pytest.approx(1)


def test_without_an_objective_there_is_no_goodput(level):
    only = sweep.summarize([level(1)], None, 0).levels[0]
    assert only.goodput_requests_per_s.reason == "no objective is given (serving.objective)"


def test_the_knee_has_the_greatest_power_not_the_greatest_rate(level):
    # Latency 0.1 + 31 × TPOT = 1.65, 2.27, 4.75 s at TPOT 0.05, 0.07, 0.15.
    # Rates 32 c / latency: 19.4, 56.4, 53.9 (c = 1, 4, 8); 8 streams at TPOT 0.12 (3.82 s) give 67.0.
    # Powers, rate / latency: 11.8, 24.8, 17.5.
    found = sweep.summarize([level(8, 0.12), level(1, 0.05), level(4, 0.07)], OBJECTIVE, 0)
    assert [each.concurrency for each in found.levels] == [1, 4, 8]
    assert [each.power.value for each in found.levels] == pytest.approx([11.754, 24.840, 17.543], abs=1e-3)
    assert found.knee is not None
    assert found.knee.concurrency == 4
    assert found.best_aggregate is not None
    assert found.best_aggregate.concurrency == 8


def test_one_level_has_no_knee(level):
    assert sweep.summarize([level(1)], OBJECTIVE, 0).knee is None


def test_the_aggregate_speedup_is_against_the_baseline_at_the_same_level(level):
    # The baseline needs 1.65 s, the variant 0.1 + 31 × 0.02 = 0.72 s
    only = sweep.summarize([level(2, 0.02)], OBJECTIVE, 0).levels[0]
    assert not isinstance(only.aggregate_speedup, str)
    assert only.aggregate_speedup.ratio == pytest.approx(1.65 / 0.72)
    assert only.versus is Versus.FASTER


def test_outcomes_are_told_in_runs(level):
    # TPOT of the baseline is 0.05; the least spread of processes gives an interval of ± 2.8 %.
    tpot_s = {1: 0.02, 2: 0.03, 4: 0.0505, 8: 0.08, 16: 0.09}
    found = sweep.summarize([level(streams, each) for streams, each in tpot_s.items()], OBJECTIVE, 0)
    assert [each.versus for each in found.levels][1:4] == [Versus.FASTER, Versus.ALIKE, Versus.SLOWER]
    assert found.words == "faster at 1 to 2 streams, not to be told apart at 4 streams, slower at 8 to 16 streams"
    assert found.crossover == 4


def test_a_variant_that_gets_faster_with_more_streams(level):
    found = sweep.summarize([level(1, 0.08), level(2, 0.02)], OBJECTIVE, 0)
    assert found.words == "slower at 1 stream, faster at 2 streams"
    assert found.crossover == 2


def test_what_was_not_decided_at_first_cannot_cross_over(level):
    found = sweep.summarize([level(1), level(2, 0.02)], OBJECTIVE, 0)
    assert found.crossover is None
    found = sweep.summarize([level(1), level(2)], OBJECTIVE, 0)
    assert found.words == "not to be told apart at 1 to 2 streams"
    assert found.crossover is None


def test_a_level_without_interval_or_baseline_is_not_compared(build, level):
    short = level(1, pairs=build.pairs(build.request(tpot_s=0.01), build.request(), processes=2))
    alone = level(2, pairs=build.pairs(build.request(), None))
    found = sweep.summarize([short, alone], OBJECTIVE, 0)
    assert found.words == "not compared at 1 to 2 streams"


def test_a_level_of_another_output_length_is_invalid(level):
    found = sweep.summarize([level(1, output_tokens=16), level(2)], OBJECTIVE, 0)
    wrong = "INVALID: an output of 32 tokens where 16 are pinned"
    assert found.levels[0].aggregate_speedup == wrong
    assert found.levels[0].aggregate_tokens_per_s.reason == wrong
    assert found.levels[0].goodput_requests_per_s.reason == wrong
    assert found.levels[1].aggregate_tokens_per_s.value is not None


def test_a_level_that_was_not_answered_has_reasons(level):
    found = sweep.summarize([level(1), level(2, pairs=[])], OBJECTIVE, 0)
    assert found.levels[1].aggregate_tokens_per_s.value is None
    assert found.levels[1].goodput_requests_per_s.value is None
    assert found.levels[1].power.reason == "P50 needs 1 readings, there are 0"
    assert found.knee is None


def test_levels_of_several_workloads_are_refused(build):
    with pytest.raises(ValueError, match="not of 2"):
        sweep.summarize([build.workload("a"), build.workload("b")], None, 0)
