from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.errors import UserError
from pipeline.params import Gate
from pipeline.quality_records import Invariance
from pipeline.readings import Alternation
from pipeline.records import Decision, Status, Verdict
from pipeline.report.analysis import analyse

SCORES = [1.0] * 72 + [0.0] * 48


def decide(project, *variants, **extra) -> Decision:
    return analyse(project.write(*variants), **extra).decision


def why(decision: Decision) -> dict[str, str]:
    return {decided.variant: decided.why for decided in decision.variants}


def scores(decision: Decision) -> dict[str, float | None]:
    return {
        decided.variant: None if decided.score.value is None else round(decided.score.value, 4)
        for decided in decision.variants
    }


def test_the_best_score_of_those_that_pass(project, four_variants):
    found = decide(project, *four_variants)
    assert found.pick == "int4-gptq"
    # 25 / 20 tokens per second; 90 / 257 MiB; 3 of 120 items lost. Intervals of the least spread: e^± 0.028.
    assert found.headline == (
        "Ship int4-gptq: 1.25× (1.22 to 1.29) the decode speed of fp16, 35 % of its weight bytes, "
        "quality −2.5 pp (−7.1 to +0.7 pp)."
    )
    speed = "Decode speed vs baseline"
    assert why(found) == {
        "fp16": f"lower score under chat, 1 against 1.25 (1.22 to 1.29) of int4-gptq; most of it by {speed} 1 "
        "against 1.25× (1.22 to 1.29) of int4-gptq",
        "int8": "lower score under chat, 0.25 (0.24 to 0.26) against 1.25 (1.22 to 1.29) of int4-gptq; most of it by "
        f"{speed} 0.25× (0.24 to 0.26) against 1.25× (1.22 to 1.29) of int4-gptq",
        "int4-gptq": "of those that pass every gate it has the best score under chat, 1.25 (1.22 to 1.29)",
        "int4-awq": "failed: quantize: out of memory",
    }
    assert found.frontier == ["fp16", "int4-gptq"]
    assert (found.axes, found.would_have_to_give) == (["quality", "speedup", "peak_memory_bytes"], [])
    assert scores(found) == {"fp16": 1.0, "int8": 0.25, "int4-gptq": 1.25, "int4-awq": None}
    assert found.variants[3].score.reason == (
        "no score without Decode speed vs baseline: benchmark failed: there is no artifact"
    )
    assert (found.variants[2].score_ci_low.value, found.variants[2].score_ci_high.value) == pytest.approx(
        (1.25 / 1.02839, 1.25 * 1.02839), rel=1e-5
    )


# --- profiles --------------------------------------------------------------------------------------------------


def test_each_profile_has_its_pick(project, build):
    """int4 is as fast as fp16 and half as large; awq is faster and larger."""
    int4 = build.evidence("int4", SCORES, weight_bytes=2**27, peak_bytes=500 * 2**20)
    awq = build.evidence("awq", SCORES, tpot_s=0.025, weight_bytes=2**28, peak_bytes=950 * 2**20)
    found = decide(project, build.evidence("fp16", SCORES), int4, awq)
    assert (found.profile, found.pick, found.weights) == ("chat", "awq", {"speedup": 1.0})
    assert found.profiles == {"chat": "awq", "edge": "int4"}
    edge = decide(project, build.evidence("fp16", SCORES), int4, awq, profile="edge")
    assert (edge.profile, edge.pick) == ("edge", "int4")
    assert edge.weights == {"peak_memory_bytes": 0.5, "weight_bytes": 0.5}
    assert edge.profiles == found.profiles
    assert edge.headline.startswith(
        "Ship int4: 1.00× (0.97 to 1.03) the decode speed of fp16, Peak memory 500 MiB against 900 MiB, 50 % of its "
        "weight bytes"
    )
    # ln(950 / 500) is less than ln(256 / 128), at equal weights.
    assert why(edge) == {
        "fp16": "dominated by int4: Peak memory 900 MiB against 500 MiB of int4",
        "int4": "of those that pass every gate it has the best score under edge, 1.90",
        "awq": "lower score under edge, 0.98 against 1.90 of int4; most of it by Weights on disk 256 MiB against "
        "128 MiB of int4",
    }


def test_an_unknown_profile_gets_the_nearest_one(project, four_variants):
    with pytest.raises(UserError, match=r"no profile 'edgy' in decision\.profiles; did you mean 'edge'\?"):
        decide(project, *four_variants, profile="edgy")


def test_a_variant_without_a_weighted_value_passes_but_is_not_ranked(project, build):
    """Half as large as any, but its speed was not compared: two processes have no ratio with the baseline."""
    alone = build.pairs(build.request(), None)
    unscored = replace(
        build.evidence("int8", SCORES, weight_bytes=2**20), speed=build.speed("int8", [build.workload(pairs=alone)])
    )
    found = decide(project, build.evidence("fp16", SCORES), unscored)
    assert found.pick == "fp16"
    assert scores(found) == {"fp16": 1.0, "int8": None}
    assert why(found)["int8"] == (
        "passes every gate but is not ranked under chat: no score without Decode speed vs baseline: "
        "no turn has a reading of both variant and baseline"
    )
    assert found.variants[1].tied_with == []


# --- dominated -------------------------------------------------------------------------------------------------


def test_a_dominated_variant_is_told_on_what(project, build):
    fp16 = build.evidence("fp16", SCORES)
    slow = build.evidence("int8", SCORES, tpot_s=0.1, peak_bytes=2**30)
    found = decide(project, fp16, slow, build.failed("int4"))
    assert found.pick == "fp16"
    assert found.headline == "Ship fp16, the baseline. Ranked lower: int8; failing: int4."
    assert why(found)["int8"] == (
        "dominated by fp16: Decode speed vs baseline 0.50× (0.49 to 0.51), Peak memory 1.00 GiB against 900 MiB of fp16"
    )


def test_what_the_smoke_gate_stopped_fails_every_gate_with_its_reason(project, build):
    found = decide(project, build.evidence("fp16", SCORES), build.collapsed("int4"))
    assert found.pick == "fp16"
    int4 = found.variants[1]
    reason = "invalid: smoke: collapsed: KLD 9.8 (at most 3), top-1 agreement 0.1 % (at least 20 %)"
    assert (int4.status, int4.verdict, int4.why) == (Status.INVALID, Verdict.FAIL, reason)
    assert {gate.verdict for gate in int4.gates} == {Verdict.FAIL}
    assert {gate.reason for gate in int4.gates} == {reason}
    assert "int4" not in found.frontier


# --- ties ------------------------------------------------------------------------------------------------------


def test_within_the_tie_share_the_smaller_one_goes_first(project, build):
    # 20 against 20.83 tokens/s is 4 %, beyond the intervals of ± 2.8 % but less than the tie of 5 %.
    fast = build.evidence("fast", SCORES, tpot_s=0.048)
    small = build.evidence("small", SCORES, tpot_s=0.05, weight_bytes=2**27)
    found = decide(project, build.evidence("fp16", SCORES), fast, small)
    assert found.pick == "small"
    assert found.headline.endswith(" Tied with it under chat: fp16, fast.")
    assert why(found)["fast"] == (
        "tied with small: score 1.04 (1.01 to 1.07) under chat, the best one, is not told apart from "
        "1.00 (0.97 to 1.03) of small; no clear difference in quality; Weights on disk 257 MiB against 128 MiB of small"
    )
    assert why(found)["small"] == (
        "passes every gate and is tied with fp16, fast: score 1.00 (0.97 to 1.03) under chat is not told apart from "
        "1.04 (1.01 to 1.07) of fast, the best one; it goes first by fewer bytes"
    )
    assert found.variants[2].tied_with == ["fp16", "fast"]


def test_a_tie_goes_to_the_quality_that_is_clearly_better(project, build):
    """8 of 120 items lost and none won: the paired interval leaves out 0, though those of the two scores overlap."""
    project.raw["gates"] = {}
    worse = build.evidence("int4", [0.0] * 8 + SCORES[8:], weight_bytes=2**20, tpot_s=0.049)
    found = decide(project, build.evidence("fp16", SCORES), worse)
    assert found.pick == "fp16"
    assert found.headline == "Ship fp16, the baseline. Tied with it under chat: int4."
    assert why(found)["int4"] == (
        "tied with fp16: score 1.02 (0.99 to 1.05) under chat, the best one, is not told apart from 1 of fp16; "
        "quality clearly below that of fp16: "
        "−6.7 pp (−12.6 to −3.4 pp) on the same items"
    )
    assert why(found)["fp16"].endswith("; it goes first by better quality")


def test_a_quality_within_the_noise_floor_breaks_no_tie(project, build):
    """The same difference, where the batch alone flips 2 of 24 answers: 1.96 × √(2 × 2/24 / 120) is 7.3 points."""
    project.raw["gates"] = {}
    variants = []
    for name, scored in (("fp16", SCORES), ("int4", [0.0] * 8 + SCORES[8:])):
        made = build.evidence(name, scored, weight_bytes=2**28 if name == "fp16" else 2**20)
        noise = Invariance(items=24, differing=4, flips=["item-001", "item-002"])
        noisy = made.quality[0].record.model_copy(update={"invariance": noise})
        variants.append(replace(made, quality=(replace(made.quality[0], record=noisy),)))
    assert decide(project, *variants).pick == "int4"


def test_tied_to_the_end_the_baseline_comes_first(project, build):
    found = decide(project, build.evidence("fp16", SCORES), build.evidence("b", SCORES), build.evidence("a", SCORES))
    assert found.pick == "fp16"
    assert found.headline == "Ship fp16, the baseline. Tied with it under chat: b, a."
    assert why(found)["a"] == (
        "tied with fp16: score 1.00 (0.97 to 1.03) under chat is not told apart from 1 of fp16, the best one; "
        "no clear difference in quality, as many bytes; fp16 is the baseline"
    )


def test_tied_without_the_baseline_the_first_name_comes_first(project, build):
    better = [build.evidence(name, SCORES, tpot_s=0.01) for name in ("b", "a")]
    found = decide(project, build.evidence("fp16", SCORES), *better)
    assert found.pick == "a"
    assert why(found)["b"].endswith("no clear difference in quality, as many bytes; the name a comes first")
    assert why(found)["a"].endswith("of b, the best one; it goes first by the first name")


def test_a_tie_with_the_best_one_counts_not_one_with_the_pick(project, build):
    """small is tied with fast, and mid with small, but mid is told apart from fast."""
    fast, mid = build.evidence("fast", SCORES, tpot_s=0.05 / 1.3), build.evidence("mid", SCORES, tpot_s=0.05 / 1.15)
    small = spread(build, "small", [0.9, 1.2, 1.5], weight_bytes=2**27)
    found = decide(project, build.evidence("fp16", SCORES), fast, mid, small)
    assert found.pick == "small"
    assert found.variants[3].tied_with == ["fp16", "fast", "mid"]
    assert found.variants[1].tied_with == ["small"]
    assert why(found)["mid"].startswith(
        "lower score under chat, 1.15 (1.12 to 1.18) against 1.30 (1.26 to 1.34) of fast, from which small is not told "
        "apart; most of it by Decode speed vs baseline"
    )


# --- nothing passes --------------------------------------------------------------------------------------------


def test_nothing_passes(project, build):
    project.raw["gates"] = {"speed": {"metric": "decode_tokens_per_s", "at_least": 100}}
    found = decide(project, build.evidence("fp16", SCORES), build.failed("int8"))
    assert found.pick is None
    gives = "fp16 would pass if speed were 20.0 instead of 100"
    assert found.headline == f"No variant can be shipped: none passes every gate. {gives}."
    assert found.would_have_to_give == [gives]
    assert found.profiles == {"chat": None, "edge": None}
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
    assert found.headline.startswith(
        "No variant can be shipped yet: none passes every gate. Undecided: int4. int4 would"
    )


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
    assert "the baseline has no sound artifact to compare with" in why(found)["int8"]
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


def test_scores_whose_intervals_do_not_separate_them_are_tied(project, build):
    # 1.1 and 1.3 differ by 15 %, three times the tie; over 0.9, 1.1 and 1.3 the first is known too badly.
    noisy = spread(build, "small", [0.9, 1.1, 1.3], weight_bytes=2**27)
    fast = spread(build, "fast", [1.3, 1.3, 1.3])
    found = decide(project, build.evidence("fp16", SCORES), noisy, fast)
    assert found.pick == "small"
    assert why(found)["fast"].endswith("Weights on disk 257 MiB against 128 MiB of small")
    steady = spread(build, "small", [1.1, 1.1, 1.1], weight_bytes=2**27)
    assert decide(project, build.evidence("fp16", SCORES), steady, fast).pick == "fast"


def test_without_an_interval_a_score_is_told_apart_from_none(project, build):
    """Two pairs of processes have no interval: 1.25 times the speed is no reason to ship four times the bytes."""
    few = build.pairs(build.request(tpot_s=0.04), build.request(), processes=2)
    ours = replace(
        build.evidence("int8", SCORES, weight_bytes=2**28), speed=build.speed("int8", [build.workload(pairs=few)])
    )
    fp16 = build.evidence("fp16", SCORES, weight_bytes=2**26)
    project.raw["gates"] = {}
    found = decide(project, fp16, ours)
    assert found.pick == "fp16"
    assert why(found)["int8"] == (
        "tied with fp16: score 1.25 without an interval under chat, the best one, is not told apart from 1 of fp16; "
        "no clear difference in quality; "
        "Weights on disk 256 MiB against 64 MiB of fp16"
    )
    assert found.variants[1].score_ci_low.reason == (
        "Decode speed vs baseline: an interval needs 3 pairs of processes, there are 2"
    )


def test_a_rate_is_ranked_by_its_ratio_measured_in_turns(project, build):
    """The second is measured while the machine is twice as fast, and so is its baseline: it is no faster."""
    project.raw["decision"]["profiles"]["chat"] = {"weights": {"decode_tokens_per_s": 1.0}}
    early = spread(build, "a", [1.5, 1.5, 1.5])
    pairs = build.pairs(build.request(tpot_s=0.02), build.request(tpot_s=0.025))
    speed = build.speed("b", [build.workload(pairs=pairs)], peak_bytes=800 * 2**20)
    late = replace(build.evidence("b", SCORES), speed=speed)
    found = decide(project, build.evidence("fp16", SCORES), early, late)
    assert found.pick == "a"
    assert scores(found) == {"fp16": 1.0, "a": 1.5, "b": 1.25}


def test_its_own_noise_neither_ranks_nor_gates_the_baseline(project, build):
    """One of two processes of the baseline was half as fast again as the other, and in one pair it was slower."""
    project.raw["gates"]["fast"] = {"metric": "speedup", "at_least": 1.0}
    noisy = spread(build, "fp16", [1.5, 1.5, 1.5])
    ours = spread(build, "int8", [1.2, 1.2, 1.2])
    assert decide(project, noisy, ours).pick == "int8"
    undecided = decide(project, spread(build, "fp16", [0.9, 1.0, 1.1]), ours)
    assert [verdict.verdict for verdict in undecided.variants[0].gates] == [Verdict.PASS] * 3


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
    assert (
        why(found)["int8"]
        == f"of those that pass every gate it has the best score under chat, 2.00 (1.94 to 2.06); {KERNEL}"
    )
