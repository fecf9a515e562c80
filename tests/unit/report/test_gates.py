"""The verdict of one gate, in words and numbers. Every kind of requirement is asked in test_gate_kinds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import ENVIRONMENT, Build

from pipeline import gate_bounds
from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.exposure import Exposed
from pipeline.metrics.metric import Metric
from pipeline.metrics.samples import PairedItems, ProcessPairs, Sample, Timings
from pipeline.metrics.scope import Measured, Scope
from pipeline.params import Gate
from pipeline.readings import Stop
from pipeline.records import MoreOf, Reading, Status, Verdict, known, missing
from pipeline.report import gates
from pipeline.report.rows import Row

ABSENT = missing("not measured")


def reading(value: float | None) -> Reading:
    return ABSENT if value is None else known(value)


@dataclass(frozen=True)
class Found:
    """A variant of which one metric was measured."""

    measured: Measured
    variant: str = "int8"
    status: Status = Status.OK
    evidence: VariantEvidence = field(default_factory=Build(ENVIRONMENT).evidence)

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    @property
    def reason(self) -> str | None:
        return None if self.ok else "benchmark: out of memory"

    def measure(self, metric: Metric, scope: Scope) -> Measured:
        return self.measured


def row(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    sample: Sample | None = None,
    **changes: Any,
) -> Row:
    measured = Measured(reading(value), reading(low), reading(high), sample)
    return cast(Row, Found(measured, **changes))


BASELINE = row(1000 * 2**20, variant="fp16")


def judged(gate: Gate, ours: Row) -> tuple[Verdict, str]:
    found = gates.judge("the-gate", gate, ours, BASELINE)
    return found.verdict, found.reason


DROP = Gate(metric="quality_delta", at_least=-0.08)


def delta(mean: float, low: float | None, high: float | None, items: int = 100, changed: float = 0.5) -> Row:
    return row(mean, low, high, PairedItems(items, changed))


# --- the rule --------------------------------------------------------------------------------------------------


def test_the_whole_interval_meets_the_bound():
    verdict, reason = judged(DROP, delta(-0.02, -0.05, 0.01))
    assert verdict is Verdict.PASS
    assert reason == "−2.0 pp (−5.0 to +1.0 pp): the whole interval is at least −8.0 pp"


def test_touching_the_bound_meets_it():
    assert judged(DROP, delta(-0.02, -0.08, 0.01))[0] is Verdict.PASS
    assert judged(Gate(metric="quality_delta", at_most=0.01), delta(-0.02, -0.08, 0.01))[0] is Verdict.PASS


def test_an_interval_that_ends_at_the_bound_on_the_wrong_side_is_not_yet_a_fail():
    assert judged(DROP, delta(-0.12, -0.2, -0.08))[0] is Verdict.UNDECIDED
    assert judged(DROP, delta(-0.12, -0.2, -0.0801))[0] is Verdict.FAIL


def test_none_of_the_interval_meets_the_bound():
    assert judged(DROP, delta(-0.15, -0.2, -0.1))[0] is Verdict.FAIL


@pytest.mark.parametrize(
    ("mean", "low", "high", "verdict"),
    [(0.1, 0.05, 0.15, Verdict.FAIL), (-0.1, -0.15, -0.05, Verdict.PASS), (0.0, -0.1, 0.1, Verdict.UNDECIDED)],
)
def test_an_upper_bound_mirrors_a_lower_one(mean, low, high, verdict):
    assert judged(Gate(metric="quality_delta", at_most=0.01), delta(mean, low, high))[0] is verdict


SHARES = st.floats(-1, 1, allow_nan=False)
ENDS = st.tuples(SHARES, SHARES, SHARES).map(sorted)


def verdict_of(ends: list[float], bound: float, at_least: bool) -> gates.Judged:
    low, mean, high = ends
    measured = Measured(known(mean), known(low), known(high), PairedItems(100, 1.0))
    return gates.compare(BY_NAME["quality_delta"], measured, bound, at_least=at_least)


@given(ENDS, SHARES, st.booleans())
def test_pass_means_all_of_the_interval_meets_the_bound_and_fail_that_none_does(ends, bound, at_least):
    met = [end >= bound if at_least else end <= bound for end in (ends[0], ends[2])]
    expected = Verdict.PASS if all(met) else Verdict.FAIL if not any(met) else Verdict.UNDECIDED
    assert verdict_of(ends, bound, at_least).verdict is expected


RANK = {Verdict.FAIL: 0, Verdict.UNDECIDED: 1, Verdict.PASS: 2}


@given(ENDS, SHARES, SHARES, st.booleans())
def test_a_looser_bound_is_never_judged_worse(ends, one, other, at_least):
    strict, loose = sorted((one, other), reverse=at_least)
    assert RANK[verdict_of(ends, loose, at_least).verdict] >= RANK[verdict_of(ends, strict, at_least).verdict]


@given(ENDS, SHARES, st.booleans())
def test_the_bounds_that_would_pass_and_fail_now_do_so(ends, bound, at_least):
    found = verdict_of(ends, bound, at_least)
    assert found.passes_at is not None
    assert found.fails_at is not None
    stricter = 0.01 if at_least else -0.01
    assert verdict_of(ends, found.passes_at, at_least).verdict is Verdict.PASS
    assert verdict_of(ends, found.passes_at + stricter, at_least).verdict is not Verdict.PASS
    assert verdict_of(ends, found.fails_at, at_least).verdict is not Verdict.FAIL
    assert verdict_of(ends, found.fails_at + stricter, at_least).verdict is Verdict.FAIL


def test_overall_is_the_worst_verdict():
    passes, fails, open_ = (
        gates.judge("g", DROP, ours, BASELINE)
        for ours in (delta(0, -0.01, 0.01), delta(-0.2, -0.3, -0.1), delta(-0.07, -0.1, 0))
    )
    assert gates.overall(row(0), [passes]) is Verdict.PASS
    assert gates.overall(row(0), [passes, open_]) is Verdict.UNDECIDED
    assert gates.overall(row(0), [passes, open_, fails]) is Verdict.FAIL
    assert gates.overall(row(0), []) is Verdict.PASS


# --- undecided -------------------------------------------------------------------------------------------------


def test_undecided_says_how_many_more_items():
    # The bound is below the mean: half-width -0.02 - -0.10 = 0.08, distance 0.06: about 100 × (0.08/0.06)² - 100 = 77.8
    found = gates.judge("g", DROP, delta(-0.02, -0.10, 0.04), BASELINE)
    assert found.verdict is Verdict.UNDECIDED
    assert found.reason == (
        "−2.0 pp (−10.0 to +4.0 pp): only part of it is at least −8.0 pp; it leans to PASS, and about 78 more items "
        "would decide it"
    )
    assert (found.more, found.more_of) == (78, MoreOf.ITEMS)
    assert (found.passes_at, found.fails_at) == (-0.10, 0.04)


def test_where_nothing_differed_fewer_items_are_needed():
    # 30 items: 0 ± z² / (30 + z²). It is within 0.08 from z² × 0.92 / 0.08 = 44.2 items on: 15 more.
    ours = delta(0.0, -0.11351, 0.11351, items=30, changed=0.0)
    assert "it leans to PASS, and about 15 more items would decide it" in judged(DROP, ours)[1]


def test_undecided_on_the_failing_side_uses_that_side_of_the_interval():
    # The bound is above the mean: half-width 0.06, distance 0.02: about 100 × 9 - 100
    assert "it leans to FAIL, and about 793 more items" in judged(DROP, delta(-0.10, -0.2, -0.04))[1]


@pytest.mark.parametrize("mean", [-0.08, -0.0799])
def test_so_near_the_bound_a_person_decides(mean: float):
    found = gates.judge("g", DROP, delta(mean, -0.1, -0.05), BASELINE)
    assert found.verdict is Verdict.UNDECIDED
    assert found.reason == (
        "−8.0 pp (−10.0 to −5.0 pp): only part of it is at least −8.0 pp; so near the bound that no practical number "
        "of more decides it: accept it or move the bound (−10.0 pp would PASS now, above −5.0 pp FAIL)"
    )
    assert (found.more, found.more_of) == (None, MoreOf.ITEMS)


def test_so_near_an_upper_bound_the_other_ends_are_named():
    ours = row(0.02, 0.01, 0.03, PairedItems(100, 0.5))
    reason = judged(Gate(metric="quality_delta", at_most=0.02), ours)[1]
    assert reason.endswith("move the bound (+3.0 pp would PASS now, below +1.0 pp FAIL)")


def test_a_value_whose_interval_is_missing_is_undecided():
    found = gates.judge("g", DROP, delta(0.0, None, None), BASELINE)
    assert (found.verdict, found.reason) == (Verdict.UNDECIDED, "0.0 pp has no interval: not measured")
    assert (found.passes_at, found.fails_at, found.more, found.more_of) == (None, None, None, None)


FAST = Gate(metric="speedup", at_least=0.8)


def speedup(ratio: float, low: float | None, high: float | None, stop: Stop = Stop.BUDGET) -> Row:
    return row(ratio, low, high, ProcessPairs(3, stop))


def test_a_speed_up_is_judged_by_its_interval():
    verdict, reason = judged(FAST, speedup(1.27, 1.19, 1.36))
    assert (verdict, reason) == (Verdict.PASS, "1.27× (1.19 to 1.36): the whole interval is at least 0.80×")
    verdict, reason = judged(FAST, speedup(0.55, 0.51, 0.58))
    assert (verdict, reason) == (Verdict.FAIL, "0.55× (0.51 to 0.58): none of the interval is at least 0.80×")
    # A point of 0.85 alone would pass.
    assert judged(FAST, speedup(0.85, 0.7, 1.03))[0] is Verdict.UNDECIDED


def test_an_undecided_speed_up_counts_pairs_of_processes_and_names_the_budget():
    # log(0.8 / 0.68) / log(0.83 / 0.68) = 0.815; t(k - 1) / √k is 2.799 at 3, 1.741 at 4: one more is enough.
    found = gates.judge("g", FAST, speedup(0.68, 0.56, 0.83), BASELINE)
    assert found.verdict is Verdict.UNDECIDED
    assert found.reason == (
        "0.68× (0.56 to 0.83): only part of it is at least 0.80×; it leans to FAIL, and about 1 more pair of processes "
        "would decide it (benchmark.pairing.budget_s would have to grow)"
    )
    assert (found.more, found.more_of) == (1, MoreOf.PROCESS_PAIRS)


def test_a_speed_up_without_an_interval_is_undecided():
    assert judged(FAST, speedup(2.0, None, None)) == (Verdict.UNDECIDED, "2.00× has no interval: not measured")


# --- one end of the interval alone -----------------------------------------------------------------------------

P95 = Gate(metric="ttft_s_p95", at_most=0.5)


def test_a_percentile_whose_upper_end_is_not_known_may_fail_but_not_pass():
    few = Timings((0.6,) * 21, 95, 3)
    assert judged(P95, row(0.6, 0.6, None, few)) == (
        Verdict.FAIL,
        "600 ms (600 ms or more): none of the interval is at most 500 ms",
    )
    found = gates.judge("g", P95, row(0.1, 0.1, None, Timings((0.1,) * 21, 95, 3)), BASELINE)
    assert found.verdict is Verdict.UNDECIDED
    assert found.reason == (
        "100 ms (100 ms or more): not measured; it leans to PASS, and about 51 more requests would decide it "
        "(`pairs`: 24 turns in each of 3 pairs of processes)"
    )
    assert (found.more, found.more_of, found.passes_at, found.fails_at) == (51, MoreOf.REQUESTS, None, 0.1)


# --- without an interval ---------------------------------------------------------------------------------------


def test_a_metric_without_an_interval_compares_the_point():
    gate = Gate(metric="peak_memory_bytes", at_most=24 * 2**30)
    assert judged(gate, row(24 * 2**30)) == (Verdict.PASS, "24.00 GiB ≤ 24.00 GiB")
    assert judged(gate, row(25 * 2**30)) == (Verdict.FAIL, "25.00 GiB > 24.00 GiB")
    found = gates.judge("g", gate, row(25 * 2**30), BASELINE)
    assert found.passes_at == found.fails_at == 25 * 2**30


CRITICAL = Gate(metric="critical_regressions", at_most=0)


def lost(count: float, exposed: Exposed) -> Row:
    return cast(Row, Found(Measured(known(count), exposed=exposed)))


def test_none_lost_passes_and_says_what_that_rules_out():
    found = judged(CRITICAL, lost(0, Exposed(48, 48, "critical items that fp16 passed")))
    assert found == (
        Verdict.PASS,
        "0 ≤ 0, of 48 critical items that fp16 passed; with 95 % confidence the share is below 6.25 %",
    )
    assert judged(CRITICAL, lost(0, Exposed(0, 0, "critical items that fp16 passed"))) == (
        Verdict.PASS,
        "0 ≤ 0, of no critical items that fp16 passed; so that says nothing",
    )


def test_one_lost_fails():
    found = judged(CRITICAL, lost(1, Exposed(48, 48, "critical items that fp16 passed")))
    assert found == (Verdict.FAIL, "1 > 0, of 48 critical items that fp16 passed")


# --- relative, missing, failed ---------------------------------------------------------------------------------


def test_a_relative_bound_is_a_multiple_of_the_baseline():
    gate = Gate(metric="weight_bytes", at_most=0.5, relative=True)
    found = gates.judge("small", gate, row(501 * 2**20), BASELINE)
    assert (found.verdict, found.bound, found.reason) == (Verdict.FAIL, 500 * 2**20, "501 MiB > 500 MiB")
    assert gates.describe(gate, BASELINE) == "Weights on disk ≤ 0.5 × fp16's (500 MiB)"


def test_a_relative_bound_without_a_baseline_is_undecided():
    gate = Gate(metric="peak_memory_bytes", at_most=1.0, relative=True)
    found = gates.judge("g", gate, row(1), row(None, variant="fp16"))
    assert (found.verdict, found.bound) == (Verdict.UNDECIDED, None)
    assert "relative to the baseline fp16, whose value is missing: not measured" in found.reason


def test_a_missing_value_is_undecided_with_its_reason():
    assert judged(DROP, row(None)) == (Verdict.UNDECIDED, "Quality vs baseline is missing: not measured")


@pytest.mark.parametrize("status", [Status.FAILED, Status.INVALID])
@pytest.mark.parametrize("gate", [DROP, CRITICAL, P95, FAST])
def test_a_variant_that_is_not_ok_fails_every_gate_whatever_was_measured(gate: Gate, status: Status):
    broken = row(0.0, 0.0, 0.0, status=status)
    found = gates.judge("g", gate, broken, BASELINE)
    assert (found.verdict, found.reason) == (Verdict.FAIL, f"{status.value}: benchmark: out of memory")
    assert (found.passes_at, found.fails_at, found.more) == (None, None, None)
    assert gates.overall(broken, []) is Verdict.FAIL


# --- bounds that people put in ----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [each.name for each in BY_NAME.values() if each.unit != "currency"])
@given(value=st.floats(0, 1e12, allow_nan=False), part=st.floats(0, 1), up=st.booleans())
def test_an_advised_bound_is_on_its_side_when_it_is_read_again(metric: str, value: float, part: float, up: bool):
    found = BY_NAME[metric]
    number = part if found.unit in ("share", "ratio") else float(int(value)) if found.unit == "bytes" else value
    text = gate_bounds.written(found, number, up=up)
    readable = found.unit in ("share", "ratio", "bytes", "s")
    read = gate_bounds.parse(text, metric, relative=False) if readable else float(text.replace(",", ""))
    assert read >= number if up else read <= number


@given(value=st.floats(1, 1e12), base=st.floats(1, 1e12), up=st.booleans())
def test_an_advised_multiple_is_on_its_side(value: float, base: float, up: bool):
    multiple = float(gate_bounds.multiple(value, base, up=up))
    assert multiple * base >= value if up else multiple * base <= value


def test_advised_bounds_are_rounded_to_the_side_that_they_are_said_of():
    reason = judged(DROP, delta(-0.08, -0.1004, -0.0504))[1]
    assert reason.endswith("(−10.1 pp would PASS now, above −5.0 pp FAIL)")
    upper = judged(Gate(metric="quality_delta", at_most=0.02), row(0.02, 0.0104, 0.0304, PairedItems(100, 0.5)))[1]
    assert upper.endswith("(+3.1 pp would PASS now, below +1.0 pp FAIL)")


def test_two_values_that_are_shown_alike_are_shown_in_full():
    size = Gate(metric="weight_bytes", at_most=114_512_344.0)
    assert judged(size, row(114_512_345)) == (Verdict.FAIL, "114,512,345 bytes > 114,512,344 bytes")
    few = Gate(metric="refusals", at_least=0.4)
    assert judged(few, row(0)) == (Verdict.FAIL, "0 items < 0.4 items")
    failed = Gate(metric="length_finish_share", at_most=0.02)
    assert judged(failed, row(0.0204)) == (Verdict.FAIL, "2.04 % > 2 %")


def test_an_end_that_is_shown_like_the_bound_is_shown_in_full():
    reason = judged(DROP, delta(-0.12, -0.2, -0.0804))[1]
    assert reason.endswith("none of the interval is at least −8.0 pp (it ends at −8.04 pp, the bound is −8 pp)")
    assert "it ends at −8.04 pp" in judged(DROP, delta(0.0, -0.0804, 0.1))[1]


def test_a_relative_gate_advises_multiples():
    gate = Gate(metric="quality", at_least=0.9, relative=True)
    ours = row(0.45, 0.4004, 0.5004, PairedItems(100, 0.5))
    reason = gates.judge("g", gate, ours, row(0.5, variant="fp16")).reason
    assert reason.endswith("(0.800 × the baseline's would PASS now, above 1.001 × the baseline's FAIL)")


def test_a_baseline_of_nothing_bounds_nothing_from_below():
    gate = Gate(metric="flips_won", at_least=1.0, relative=True)
    found = gates.judge("g", gate, row(0), row(0, variant="fp16"))
    assert (found.verdict, found.bound) == (Verdict.UNDECIDED, None)
    assert found.reason == (
        "the bound is relative to the baseline fp16, whose value is 0, and anything is at least a multiple of that; "
        "give the bound itself"
    )
    no_more = Gate(metric="refusals", at_most=1.0, relative=True)
    assert gates.judge("g", no_more, row(1), row(0, variant="fp16")).verdict is Verdict.FAIL
