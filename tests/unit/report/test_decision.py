from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.params import Gate
from pipeline.readings import Alternation
from pipeline.records import Decision, Status, Verdict
from pipeline.report.analysis import analyse

SCORES = [1.0] * 72 + [0.0] * 48


def decide(project, *variants, **extra) -> Decision:
    return analyse(project.write(*variants), **extra).decision


def why(decision: Decision) -> dict[str, str]:
    return {decided.variant: decided.why for decided in decision.variants}


def test_the_fastest_of_those_that_pass(project, four_variants):
    found = decide(project, *four_variants)
    assert found.pick == "int4-gptq"
    # 25 / 20 tokens per second; 90 / 257 MiB; 3 of 120 items lost. Intervals of the least spread: e^± 0.028.
    assert found.headline == (
        "Ship int4-gptq: 1.25× (1.22 to 1.29) the decode speed of fp16, 35 % of its weight bytes, "
        "quality −2.5 pp (−7.1 to +0.7 pp)."
    )
    better = "1.25× (1.22 to 1.29) of int4-gptq"
    assert why(found) == {
        "fp16": f"ranked lower on Decode speed vs baseline: 1.00× (1.00 to 1.00) against {better}",
        "int8": f"ranked lower on Decode speed vs baseline: 0.25× (0.24 to 0.26) against {better}",
        "int4-gptq": "passes every gate and leads on Decode speed vs baseline",
        "int4-awq": "failed: quantize: out of memory",
    }
    assert found.frontier == ["fp16", "int4-gptq"]


def test_a_dominated_variant_is_told_on_what(project, build):
    fp16 = build.evidence("fp16", SCORES)
    slow = build.evidence("int8", SCORES, tpot_s=0.1, peak_bytes=2**30)
    found = decide(project, fp16, slow, build.failed("int4"))
    assert found.pick == "fp16"
    assert found.headline == "Ship fp16, the baseline. Ranked lower: int8; failing: int4."
    assert why(found)["int8"] == (
        "dominated by fp16: Decode speed vs baseline 0.50× against 1.00×, Peak memory 1.00 GiB against 900 MiB"
    )


def test_within_the_tie_the_next_metric_decides(project, build):
    # 20 against 20.83 tokens/s is 4 %, less than the tie of 5 %; the smaller one wins.
    fp16 = build.evidence("fp16", SCORES, tpot_s=0.048)
    small = build.evidence("int8", SCORES, tpot_s=0.05, weight_bytes=2**27)
    found = decide(project, fp16, small)
    assert found.pick == "int8"
    assert why(found)["fp16"] == "ranked lower on Weights on disk: 257 MiB against 128 MiB of int8"


def test_tied_on_everything_the_baseline_comes_first(project, build):
    found = decide(project, build.evidence("fp16", SCORES), build.evidence("b", SCORES), build.evidence("a", SCORES))
    assert found.pick == "fp16"
    assert why(found)["a"] == "tied on every preferred metric with fp16, which is the baseline"


def test_tied_without_the_baseline_the_first_name_comes_first(project, build):
    worse = [build.evidence(name, SCORES, tpot_s=0.01) for name in ("b", "a")]
    found = decide(project, build.evidence("fp16", SCORES), *worse)
    assert found.pick == "a"
    assert why(found)["b"] == "tied on every preferred metric with a, whose name comes first"


def test_nothing_passes(project, build):
    project.raw["gates"] = {"speed": {"metric": "decode_tokens_per_s", "at_least": 100}}
    found = decide(project, build.evidence("fp16", SCORES), build.failed("int8"))
    assert found.pick is None
    assert found.headline == "No variant can be shipped: none passes every gate."
    assert why(found) == {
        "fp16": "gate speed FAIL: 20.0 < 100",
        "int8": "failed: quantize: out of memory",
    }


def test_an_undecided_variant_is_no_candidate_but_is_named(project, build):
    # 12 of 120 items lost: -10 pp, an interval that holds -8 pp
    ours = build.evidence("int4", [0.0] * 12 + SCORES[12:], tpot_s=0.01)
    found = decide(project, build.evidence("fp16", SCORES), ours)
    assert found.pick == "fp16"
    assert why(found)["int4"].startswith("not shipped while undecided: gate quality-drop is UNDECIDED: −10.0 pp")
    assert "more items would decide it" in why(found)["int4"]


def test_undecided_variants_are_named_when_nothing_passes(project, build):
    project.raw["gates"]["speed"] = {"metric": "decode_tokens_per_s", "at_least": 50}
    ours = build.evidence("int4", [0.0] * 12 + SCORES[12:], tpot_s=0.01)
    found = decide(project, build.evidence("fp16", SCORES), ours)
    assert found.pick is None
    assert found.headline == "No variant can be shipped yet: none passes every gate. Undecided: int4."


def test_a_failed_baseline_leaves_comparisons_undecided(project, build):
    alone = build.pairs(build.request(), None)
    speed = build.speed(
        "int8",
        [build.workload(pairs=alone)],
        baseline_artifact_sha256=None,
        alternation=Alternation.ALONE,
        alternation_reason="the baseline fp16 has no artifact",
    )
    uncompared = build.fidelity("int8", baseline_artifact_sha256=None).model_copy(update={"blocks": []})
    ours = replace(build.evidence("int8", SCORES), speed=speed, fidelity=uncompared)
    project.raw["gates"]["same"] = {"metric": "kld_mean", "at_most": 1.0}
    project.raw["gates"]["fast"] = {"metric": "speedup", "at_least": 1.0}
    found = decide(project, build.failed("fp16"), ours)
    assert found.pick is None
    assert [verdict.verdict for verdict in found.variants[1].gates] == 4 * [Verdict.UNDECIDED]
    assert "no turn has a reading of both variant and baseline: the baseline fp16 has no artifact" in why(found)["int8"]
    assert "the baseline has no artifact to compare with" in why(found)["int8"]
    project.raw["gates"] = {}
    alone = decide(project, build.failed("fp16"), ours)
    assert alone.pick == "int8"
    assert alone.headline == "Ship int8: nothing can be compared to fp16."


def test_an_invalid_variant_is_never_picked(project, build):
    fast = build.evidence("int8", SCORES, tpot_s=0.001)
    speed = fast.speed.model_copy(update={"status": Status.INVALID, "reason": "wrong device"})
    found = decide(project, build.evidence("fp16", SCORES), replace(fast, speed=speed))
    assert found.pick == "fp16"
    assert why(found)["int8"] == "invalid: benchmark: wrong device"


def test_extra_gates_count_like_those_of_the_file(project, four_variants):
    extra = {"--min-quality": Gate(metric="peak_memory_bytes", at_most=2**20)}
    found = decide(project, *four_variants, extra_gates=extra)
    assert found.pick is None
    assert "gate --min-quality FAIL" in why(found)["fp16"]


def test_conditions_hash_ignores_results_and_follows_conditions(project, build):
    fp16 = build.evidence("fp16", SCORES)
    first = decide(project, fp16).conditions_sha256
    assert decide(project, build.evidence("fp16", SCORES, tpot_s=0.07)).conditions_sha256 == first
    items = build.scored("fp16", build.items(SCORES), eval_set_sha256="a" * 64)
    assert decide(project, replace(fp16, quality=(items,))).conditions_sha256 != first


@pytest.mark.parametrize("prefer", [["quality"], ["ttft_s_p95", "quality"]])
def test_a_preferred_metric_that_nobody_has_decides_nothing(project, build, prefer):
    project.raw["decision"]["prefer"] = prefer
    few = [build.workload(pairs=build.pairs(build.request(), build.request(), each=5))]
    variants = [replace(build.evidence(name, SCORES), speed=build.speed(name, few)) for name in ("fp16", "int8")]
    assert decide(project, *variants).pick == "fp16"


# --- speeds within the noise -----------------------------------------------------------------------------------


def spread(build, name, ratios, **changes):
    """A variant whose decode speed against a baseline of 50 ms has this ratio in each pair of processes."""
    baseline = build.request()
    pairs = [
        pair.model_copy(update={"process": process})
        for process, ratio in enumerate(ratios)
        for pair in build.pairs(build.request(tpot_s=0.05 / ratio), baseline, processes=1, each=7)
    ]
    made = build.evidence(name, SCORES, **changes)
    return replace(made, speed=build.speed(name, [build.workload(pairs=pairs)]))


def test_speeds_whose_intervals_do_not_separate_them_are_tied(project, build):
    # 1.1 and 1.3 differ by 15 %, three times the tie; over 0.9, 1.1 and 1.3 the interval of the first holds 1.3.
    noisy = spread(build, "small", [0.9, 1.1, 1.3], weight_bytes=2**27)
    fast = spread(build, "fast", [1.3, 1.3, 1.3])
    found = decide(project, build.evidence("fp16", SCORES), noisy, fast)
    assert found.pick == "small"
    assert why(found)["fast"] == "ranked lower on Weights on disk: 257 MiB against 128 MiB of small"
    steady = spread(build, "small", [1.1, 1.1, 1.1], weight_bytes=2**27)
    assert decide(project, build.evidence("fp16", SCORES), steady, fast).pick == "fast"


def test_a_noisy_best_does_not_beat_a_steady_one_whose_value_its_interval_holds(project, build):
    noisy = spread(build, "noisy", [1.1, 1.3, 1.6])
    steady = spread(build, "steady", [1.15, 1.15, 1.15], weight_bytes=2**27)
    assert decide(project, build.evidence("fp16", SCORES), noisy, steady).pick == "steady"


def test_a_rate_is_ranked_by_its_ratio_measured_in_turns(project, build):
    """The second is measured while the machine is twice as fast, and so is its baseline: it is no faster."""
    early = spread(build, "a", [1.5, 1.5, 1.5])
    pairs = build.pairs(build.request(tpot_s=0.02), build.request(tpot_s=0.025))
    speed = build.speed("b", [build.workload(pairs=pairs)], peak_bytes=800 * 2**20)
    late = replace(build.evidence("b", SCORES), speed=speed)
    found = decide(project, build.evidence("fp16", SCORES), early, late)
    assert found.pick == "a"
    assert why(found)["b"] == (
        "ranked lower on Decode speed vs baseline: 1.25× (1.22 to 1.29) against 1.50× (1.46 to 1.54) of a"
    )


def test_its_own_noise_neither_ranks_nor_gates_the_baseline(project, build):
    """One of two processes of the baseline was half as fast again as the other, and in one pair it was slower."""
    project.raw["gates"]["fast"] = {"metric": "speedup", "at_least": 1.0}
    noisy = spread(build, "fp16", [1.5, 1.5, 1.5])
    ours = spread(build, "int8", [1.2, 1.2, 1.2])
    assert decide(project, noisy, ours).pick == "int8"
    undecided = decide(project, spread(build, "fp16", [0.9, 1.0, 1.1]), ours)
    assert [verdict.verdict for verdict in undecided.variants[0].gates] == [Verdict.PASS] * 3


def test_dominance_is_by_the_ratio_measured_in_turns(project, build):
    """The second has more tokens/s only because the machine was twice as fast when it was measured."""
    early = spread(build, "a", [1.5, 1.5, 1.5])
    pairs = build.pairs(build.request(tpot_s=0.02), build.request(tpot_s=0.025))
    late = replace(build.evidence("b", SCORES), speed=build.speed("b", [build.workload(pairs=pairs)]))
    found = decide(project, build.evidence("fp16", SCORES), early, late)
    assert found.variants[2].dominated_by == ["a"]
    assert why(found)["b"] == "dominated by a: Decode speed vs baseline 1.25× against 1.50×"


def test_where_one_variant_has_no_ratio_the_rates_tell_who_dominates(project, build):
    alone = build.pairs(build.request(tpot_s=0.1), None)
    ours = replace(build.evidence("int8", SCORES), speed=build.speed("int8", [build.workload(pairs=alone)]))
    found = decide(project, build.evidence("fp16", SCORES), ours)
    assert why(found)["int8"] == "dominated by fp16: Decode tokens/s 10.0 against 20.0"


def test_without_intervals_the_rates_themselves_rank(project, build):
    few = build.pairs(build.request(tpot_s=0.04), build.request(), processes=2)
    ours = replace(build.evidence("int8", SCORES), speed=build.speed("int8", [build.workload(pairs=few)], 2**30))
    found = decide(project, build.evidence("fp16", SCORES), ours)
    assert found.pick == "int8"
    assert why(found)["fp16"] == "ranked lower on Decode tokens/s: 20.0 against 25.0 of int8"


def test_scores_are_not_tied_by_their_own_intervals(project, build):
    """Unpaired intervals of ± 9 pp overlap, though 8 of 120 items are lost and none is won."""
    project.raw["gates"], project.raw["decision"]["prefer"] = {}, ["quality", "weight_bytes"]
    worse = build.evidence("int4", [0.0] * 8 + SCORES[8:], weight_bytes=2**20)
    assert decide(project, build.evidence("fp16", SCORES), worse).pick == "fp16"


# --- kernels ---------------------------------------------------------------------------------------------------

KERNEL = "kernel not native here: speed not representative (Linear8bitLt turns int8 to float32)"


def fallback(build, name, **changes):
    made = build.evidence(name, SCORES, **changes)
    engine = build.engine(fallback_kernels={"Linear8bitLt": "turns int8 to float32"})
    return replace(made, speed=made.speed.model_copy(update={"engine": engine}))


def test_a_slower_variant_on_a_fallback_kernel_is_told(project, build):
    found = decide(project, build.evidence("fp16", SCORES), fallback(build, "int8", tpot_s=0.1))
    assert why(found)["int8"].endswith(f"; 0.50× the decode speed of fp16, {KERNEL}")


def test_a_faster_one_too_and_without_the_excuse(project, build):
    found = decide(project, build.evidence("fp16", SCORES), fallback(build, "int8", tpot_s=0.025))
    assert why(found)["int8"] == f"passes every gate and leads on Decode speed vs baseline; {KERNEL}"
