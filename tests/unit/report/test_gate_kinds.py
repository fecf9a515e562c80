"""Every kind of requirement that a release manager has, written as in params.yaml, on records with known numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from synthetic import MIB, Build

from pipeline import params
from pipeline.metrics.evidence import VariantEvidence
from pipeline.readings import Failure, FailureKind, Side, Stop
from pipeline.records import GateVerdict, Verdict
from pipeline.report import gates
from pipeline.report.analysis import analyse

OUT_OF_MEMORY = Failure(
    process=0,
    side=Side.VARIANT,
    step="request",
    workload="instruction",
    concurrency=8,
    kind=FailureKind.OUT_OF_MEMORY,
    reason="CUDA",
)


@pytest.fixture
def world(build: Build) -> list[VariantEvidence]:
    """A baseline, and a variant that loses 2 of 400 items, both in one category; twice as fast at 8 streams alone."""
    scores = [1.0] * 300 + [0.0] * 100
    fp16 = build.evidence("fp16", scores)
    critical = [item.model_copy(update={"critical": place < 60}) for place, item in enumerate(build.items(scores))]
    lost = [place for place, item in enumerate(critical) if item.category == "policy" and 60 <= place < 300][:2]
    ours = [
        item.model_copy(update={"score": 0.0, "passed": False}) if place in lost else item
        for place, item in enumerate(critical)
    ]
    turns = [
        build.pairs(build.request(ttft_s, tpot_s), build.request()) for ttft_s, tpot_s in ((0.1, 0.05), (0.4, 0.02))
    ]
    many = build.pairs(build.request(0.4, 0.025), build.request(0.1, 0.05), each=24)
    speeds = [build.workload(pairs=turns[0]), build.workload(concurrency=8, pairs=many)]
    return [
        replace(fp16, quality=(build.scored("fp16", critical),), speed=build.speed("fp16", speeds)),
        replace(
            build.evidence("int8", peak_bytes=600 * MIB),
            quality=(build.scored("int8", ours),),
            speed=build.speed("int8", speeds, 600 * MIB),
        ),
    ]


@pytest.fixture
def judge(project, world, monkeypatch):
    """The verdict on the variant, of a gate as it stands in the file."""
    monkeypatch.setitem(project.raw["benchmark"]["sweep"], "concurrency", [1, 8])

    def verdict(gate: dict[str, Any], *variants: VariantEvidence) -> GateVerdict:
        assert list(params.problems(project.raw | {"gates": {"asked": gate}})) == []
        project.raw["gates"] = {"asked": gate}
        return analyse(project.write(*(variants or world))).decision.variants[1].gates[0]

    return verdict


def test_quality_drop_of_two_points_at_most(judge):
    # 2 of 400 lost: -0.5 points; the score interval at 400 items reaches to about -1.8.
    found = judge({"metric": "quality_delta", "at_least": "-2 pp"})
    assert (found.verdict, found.value, found.bound) == (Verdict.PASS, pytest.approx(-0.005), -0.02)
    assert found.passes_at == pytest.approx(-0.018, abs=1e-3)
    assert judge({"metric": "quality_delta", "at_least": "-1 pp"}).verdict is Verdict.UNDECIDED


def test_worst_category_of_five_points_at_most(judge):
    found = judge({"metric": "worst_category_delta", "at_least": -0.06})
    assert found.verdict is Verdict.PASS
    assert found.value == pytest.approx(-2 / 134, abs=1e-3)


def test_one_category_of_one_eval_set(judge):
    gate = {"metric": "quality_delta", "at_least": "-1 pp", "eval_set": "support-desk", "category": "policy"}
    found = judge(gate)
    assert (found.eval_set, found.category) == ("support-desk", "policy")
    assert found.value == pytest.approx(-2 / 134, abs=1e-3)
    assert found.verdict is Verdict.UNDECIDED
    assert judge(gate | {"category": "intent"}).value == 0


def test_no_critical_item_lost(judge, build, world):
    found = judge({"metric": "critical_regressions", "at_most": 0})
    # 3 / 60
    assert (found.verdict, found.reason) == (
        Verdict.PASS,
        "0 ≤ 0, of 60 critical items that fp16 passed; with 95 % confidence the share is below 5 %",
    )
    [scored] = world[1].quality
    first = scored.items[0].model_copy(update={"score": 0.0, "passed": False})
    worse = replace(world[1], quality=(build.scored("int8", [first, *scored.items[1:]]),))
    found = judge({"metric": "critical_regressions", "at_most": 0}, world[0], worse)
    assert (found.verdict, found.reason) == (Verdict.FAIL, "1 > 0, of 60 critical items that fp16 passed")


def test_a_gate_on_critical_items_where_there_are_none_is_undecided(judge, build):
    found = judge({"metric": "critical_regressions", "at_most": 0}, build.evidence("fp16"), build.evidence("int8"))
    assert found.verdict is Verdict.UNDECIDED
    assert "none of the items is critical (`critical: true` in items.jsonl)" in found.reason


def test_decode_speed_up_on_a_named_workload_and_concurrency(judge):
    gate = {"metric": "speedup", "at_least": 1.3, "workload": "instruction", "concurrency": 8}
    found = judge(gate)
    assert (found.verdict, found.value, found.concurrency) == (Verdict.PASS, pytest.approx(2), 8)
    assert judge(gate | {"concurrency": 1}).verdict is Verdict.FAIL
    assert judge({"metric": "speedup", "at_least": "1.3×"}).value == pytest.approx(1)


def test_ttft_p95_of_half_a_second_at_most(judge):
    gate = {"metric": "ttft_s_p95", "at_most": "500 ms", "workload": "instruction", "concurrency": 8}
    found = judge(gate)
    assert (found.verdict, found.reason) == (
        Verdict.PASS,
        "400 ms (400 to 400 ms): the whole interval is at most 500 ms",
    )
    assert judge(gate | {"at_most": 0.3}).verdict is Verdict.FAIL
    # 21 requests at one stream.
    found = judge({"metric": "ttft_s_p95", "at_most": 0.5})
    assert (found.verdict, found.more) == (Verdict.UNDECIDED, 51)
    assert "the upper end of P95 needs 72 readings, there are 21" in found.reason


def test_too_few_requests_for_a_p95_say_how_many_turns_would_do(judge, build):
    few = build.speed("int8", [build.workload(pairs=build.pairs(build.request(), build.request(), each=5))])
    found = judge(
        {"metric": "ttft_s_p95", "at_most": 0.5}, build.evidence("fp16"), replace(build.evidence("int8"), speed=few)
    )
    assert (found.verdict, found.reason) == (
        Verdict.UNDECIDED,
        "TTFT P95 is missing: P95 needs 20 readings, there are 15 (`pairs`: 7 turns in each of 3 pairs of processes)",
    )


@pytest.mark.parametrize(("bound", "verdict"), [("24 GiB", "PASS"), ("600 MiB", "PASS"), ("599 MiB", "FAIL")])
def test_peak_memory_of_24_gib_at_most(judge, bound, verdict):
    assert judge({"metric": "peak_memory_bytes", "at_most": bound}).verdict == verdict


def test_peak_memory_of_two_thirds_of_the_baselines(judge):
    found = judge({"metric": "peak_memory_bytes", "at_most": 0.5, "relative": True})
    assert (found.verdict, found.bound) == (Verdict.FAIL, 450 * MIB)


def test_failure_rate_of_two_per_cent_at_most(judge, build, world):
    # Of 21 + 72 turns and 400 items none failed: 1 - 0.025^(1/493) = 0.75 %.
    found = judge({"metric": "failure_rate", "at_most": "2 %"})
    assert (found.verdict, found.value, found.passes_at) == (Verdict.PASS, 0, pytest.approx(0.0074547, rel=1e-4))
    # One turn ran out of memory, and the baseline took 72 more of that level.
    speed = build.speed("int8", [build.workload(), build.workload(concurrency=8, pairs=[])], failures=[OUT_OF_MEMORY])
    found = judge({"metric": "failure_rate", "at_most": "2 %"}, world[0], replace(world[1], speed=speed))
    assert (found.verdict, found.value) == (Verdict.FAIL, pytest.approx(72 / 493))


def test_a_level_that_the_variant_never_answered_fails_its_gate(judge, build, world):
    speed = build.speed("int8", [build.workload(), build.workload(concurrency=8, pairs=[])], failures=[OUT_OF_MEMORY])
    gate = {"metric": "ttft_s_p95", "at_most": 0.5, "workload": "instruction", "concurrency": 8}
    found = judge(gate, world[0], replace(world[1], speed=speed))
    assert (found.verdict, found.reason) == (
        Verdict.FAIL,
        "no request was answered: variant: out of memory: CUDA",
    )
    # Not tried, without a failure of its own, is no fault of the variant.
    untried = speed.model_copy(update={"failures": []})
    assert judge(gate, world[0], replace(world[1], speed=untried)).verdict is Verdict.UNDECIDED


def test_cost_per_million_tokens(judge):
    # 0.0001 per second; 32 tokens in 0.1 + 31 × 0.05 s: 5.16; at 8 streams 8 × 32 in 0.4 + 31 × 0.025 s: 0.459
    assert judge({"metric": "cost_per_million_tokens", "at_most": 5.0}).verdict is Verdict.FAIL
    gate = {"metric": "cost_per_million_tokens", "at_most": 0.5, "workload": "instruction", "concurrency": 8}
    found = judge(gate)
    assert (found.verdict, found.value) == (Verdict.PASS, pytest.approx(100 * 1.175 / 256))


def test_kl_divergence(judge, build, world):
    apart = build.fidelity("int8", [build.block(kld=kld) for kld in [0.04, 0.06] * 16])
    ours = replace(world[1], fidelity=apart)
    found = judge({"metric": "kld_mean", "at_most": 0.1}, world[0], ours)
    assert (found.verdict, found.value) == (Verdict.PASS, pytest.approx(0.05))
    assert judge({"metric": "kld_mean", "at_most": 0.03}, world[0], ours).verdict is Verdict.FAIL
    assert judge({"metric": "kld_mean", "at_most": 0.052}, world[0], ours).more_of == "tokens"


def test_more_pairs_of_processes_of_another_workload_ask_for_another_setting(judge, build, world):
    """More pairs follow on the deciding workload alone, so the budget does not help the others."""
    uneven = [
        pair
        for process, tpot_s in enumerate((0.04, 0.05, 0.06))
        for pair in build.pairs(build.request(tpot_s=tpot_s), build.request(), processes=1)
    ]
    numbered = [pair.model_copy(update={"process": place // 7}) for place, pair in enumerate(uneven)]
    speed = build.speed("int8", [build.workload(pairs=numbered), build.workload(concurrency=8, pairs=numbered)])
    ours = replace(world[1], speed=speed.model_copy(update={"stop": Stop.BUDGET}))
    gate = {"metric": "speedup", "at_least": 0.9, "workload": "instruction"}
    for own in (gate, gate | {"concurrency": 1}):
        assert "(benchmark.pairing.budget_s would have to grow)" in judge(own, world[0], ours).reason
    swept = judge(gate | {"concurrency": 8}, world[0], ours)
    assert "(benchmark.pairing.processes would have to grow)" in swept.reason


def test_a_gate_in_words_names_its_part(project, world, judge):
    judge({"metric": "speedup", "at_least": 1.3, "workload": "instruction", "concurrency": 8})
    analysis = analyse(params.Params.model_validate(project.raw))
    [gate] = analysis.params.gates.values()
    said = gates.describe(gate, analysis.baseline)
    assert said == "Decode speed vs baseline of instruction at 8 streams ≥ 1.30×"
