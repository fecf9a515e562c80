from __future__ import annotations

from dataclasses import replace

import pytest
from synthetic import ENVIRONMENT, Build

from pipeline.metrics.catalogue import METRICS
from pipeline.metrics.samples import PairedItems, ProcessPairs
from pipeline.params import Gate
from pipeline.readings import Stop
from pipeline.records import Reading, Status, Verdict, known, missing
from pipeline.report import gates
from pipeline.report.rows import Row

EVIDENCE = Build(ENVIRONMENT).evidence()


def row(
    variant: str = "int8",
    status: Status = Status.OK,
    items: int = 100,
    changed: float = 0.5,
    stop: Stop = Stop.BUDGET,
    **values: float | None,
) -> Row:
    readings: dict[str, Reading] = {metric.name: missing("not measured") for metric in METRICS}
    readings |= {name: missing("not measured") if value is None else known(value) for name, value in values.items()}
    return Row(
        variant=variant,
        engine="transformers",
        status=status,
        reason=None if status is Status.OK else "benchmark: out of memory",
        is_baseline=variant == "fp16",
        samples={"quality_delta": PairedItems(items, changed), "speedup": ProcessPairs(3, stop)},
        artifact_sha256=None,
        readings=readings,
        kernel_note="",
        on_frontier=False,
        dominated_by=(),
        evidence=replace(EVIDENCE, variant=variant),
    )


BASELINE = row("fp16", weight_bytes=1000 * 2**20)


def judged(gate: Gate, ours: Row) -> tuple[Verdict, str]:
    found = gates.judge("the-gate", gate, ours, BASELINE)
    return found.verdict, found.reason


DROP = Gate(metric="quality_delta", at_least=-0.08)


def delta(mean: float, low: float | None, high: float | None) -> Row:
    return row(quality_delta=mean, delta_ci_low=low, delta_ci_high=high)


def test_the_whole_interval_meets_the_bound():
    verdict, reason = judged(DROP, delta(-0.02, -0.05, 0.01))
    assert verdict is Verdict.PASS
    assert reason == "−2.0 pp (−5.0 to +1.0 pp): the whole interval is at least −8.0 pp"


def test_touching_the_bound_meets_it():
    assert judged(DROP, delta(-0.02, -0.08, 0.01))[0] is Verdict.PASS
    assert judged(Gate(metric="quality_delta", at_most=0.01), delta(-0.02, -0.08, 0.01))[0] is Verdict.PASS


def test_none_of_the_interval_meets_the_bound():
    assert judged(DROP, delta(-0.15, -0.2, -0.1))[0] is Verdict.FAIL


def test_undecided_says_how_many_more_items():
    # The bound is below the mean: half-width -0.02 - -0.10 = 0.08, distance 0.06: about 100 × (0.08/0.06)² - 100 = 77.8
    verdict, reason = judged(DROP, delta(-0.02, -0.10, 0.04))
    assert verdict is Verdict.UNDECIDED
    assert "only part of it is at least −8.0 pp; it leans to PASS, and about 78 more items would decide it" in reason


def test_where_nothing_differed_fewer_items_are_needed():
    # 30 items: 0 ± z² / (30 + z²). It is within 0.08 from z² × 0.92 / 0.08 = 44.2 items on: 15 more.
    ours = row(items=30, changed=0.0, quality_delta=0.0, delta_ci_low=-0.11351, delta_ci_high=0.11351)
    assert "it leans to PASS, and about 15 more items would decide it" in judged(DROP, ours)[1]


def test_undecided_on_the_failing_side_uses_that_side_of_the_interval():
    # The bound is above the mean: half-width 0.06, distance 0.02: about 100 × 9 - 100
    assert "it leans to FAIL, and about 793 more items" in judged(DROP, delta(-0.10, -0.2, -0.04))[1]


def test_undecided_at_the_bound_itself():
    verdict, reason = judged(DROP, delta(-0.08, -0.1, -0.05))
    assert verdict is Verdict.UNDECIDED
    assert "the value equals the bound" in reason


@pytest.mark.parametrize(
    ("mean", "low", "high", "verdict"),
    [(0.1, 0.05, 0.15, Verdict.FAIL), (-0.1, -0.15, -0.05, Verdict.PASS), (0.0, -0.1, 0.1, Verdict.UNDECIDED)],
)
def test_an_upper_bound_mirrors_a_lower_one(mean, low, high, verdict):
    assert judged(Gate(metric="quality_delta", at_most=0.01), delta(mean, low, high))[0] is verdict


def test_a_value_whose_interval_is_missing_is_undecided():
    verdict, reason = judged(DROP, delta(0.0, None, None))
    assert verdict is Verdict.UNDECIDED
    assert reason == "0.0 pp has no interval: not measured"


def test_a_metric_without_an_interval_compares_the_point():
    gate = Gate(metric="ttft_s_p95", at_most=0.5)
    assert judged(gate, row(ttft_s_p95=0.5)) == (Verdict.PASS, "500 ms ≤ 500 ms")
    assert judged(gate, row(ttft_s_p95=0.6)) == (Verdict.FAIL, "600 ms > 500 ms")


FAST = Gate(metric="speedup", at_least=0.8)


def speedup(ratio: float, low: float | None, high: float | None, stop: Stop = Stop.BUDGET) -> Row:
    return row(speedup=ratio, speedup_ci_low=low, speedup_ci_high=high, stop=stop)


def test_a_speed_up_is_judged_by_its_interval():
    verdict, reason = judged(FAST, speedup(1.27, 1.19, 1.36))
    assert (verdict, reason) == (Verdict.PASS, "1.27× (1.19 to 1.36): the whole interval is at least 0.80×")
    verdict, reason = judged(FAST, speedup(0.55, 0.51, 0.58))
    assert (verdict, reason) == (Verdict.FAIL, "0.55× (0.51 to 0.58): none of the interval is at least 0.80×")
    # A point of 0.85 alone would pass.
    assert judged(FAST, speedup(0.85, 0.7, 1.03))[0] is Verdict.UNDECIDED


def test_an_undecided_speed_up_counts_pairs_of_processes_and_names_the_budget():
    # log(0.8 / 0.68) / log(0.83 / 0.68) = 0.815; t(k - 1) / √k is 2.799 at 3, 1.741 at 4: one more is enough.
    verdict, reason = judged(FAST, speedup(0.68, 0.56, 0.83))
    assert verdict is Verdict.UNDECIDED
    assert reason == (
        "0.68× (0.56 to 0.83): only part of it is at least 0.80×; it leans to FAIL, and about 1 more pair of processes "
        "would decide it (benchmark.pairing.budget_s would have to grow)"
    )
    assert (
        "benchmark.pairing.half_width would have to shrink" in judged(FAST, speedup(0.68, 0.56, 0.83, Stop.PRECISE))[1]
    )


def test_a_speed_up_without_an_interval_is_undecided():
    assert judged(FAST, speedup(2.0, None, None)) == (Verdict.UNDECIDED, "2.00× has no interval: not measured")


def test_a_relative_bound_is_a_multiple_of_the_baseline():
    gate = Gate(metric="weight_bytes", at_most=0.5, relative=True)
    found = gates.judge("small", gate, row(weight_bytes=501 * 2**20), BASELINE)
    assert (found.verdict, found.bound, found.reason) == (Verdict.FAIL, 500 * 2**20, "501 MiB > 500 MiB")
    assert gates.describe(gate, BASELINE) == "Weights on disk ≤ 0.5 × fp16's (500 MiB)"


def test_a_relative_bound_without_a_baseline_is_undecided():
    verdict, reason = judged(Gate(metric="peak_memory_bytes", at_most=1.0, relative=True), row(peak_memory_bytes=1))
    assert verdict is Verdict.UNDECIDED
    assert "relative to the baseline fp16, whose value is missing: not measured" in reason


def test_a_missing_value_is_undecided_with_its_reason():
    assert judged(DROP, row()) == (Verdict.UNDECIDED, "Quality vs baseline is missing: not measured")


def test_a_variant_that_is_not_ok_fails():
    broken = row(status=Status.FAILED, quality_delta=0.0, delta_ci_low=0.0, delta_ci_high=0.0)
    assert judged(DROP, broken) == (Verdict.FAIL, "failed: benchmark: out of memory")
    assert gates.overall(broken, []) is Verdict.FAIL


def test_overall_is_the_worst_verdict():
    passes, fails, open_ = (
        gates.judge("g", DROP, ours, BASELINE)
        for ours in (delta(0, -0.01, 0.01), delta(-0.2, -0.3, -0.1), delta(-0.07, -0.1, 0))
    )
    assert gates.overall(row(), [passes]) is Verdict.PASS
    assert gates.overall(row(), [passes, open_]) is Verdict.UNDECIDED
    assert gates.overall(row(), [passes, open_, fails]) is Verdict.FAIL
    assert gates.overall(row(), []) is Verdict.PASS
