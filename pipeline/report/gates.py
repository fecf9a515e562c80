"""Gates with three verdicts. An interval decides where there is one: PASS when all of it meets the bound."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.params import Gate
from pipeline.records import GateVerdict, Verdict
from pipeline.report import cells
from pipeline.report.rows import Row


def judge_all(gates: Mapping[str, Gate], row: Row, baseline: Row) -> list[GateVerdict]:
    return [judge(name, gate, row, baseline) for name, gate in gates.items()]


def overall(row: Row, verdicts: list[GateVerdict]) -> Verdict:
    """FAIL if the variant is not ok or any gate fails, else UNDECIDED if any gate is, else PASS."""
    found = {verdict.verdict for verdict in verdicts}
    if not row.ok or Verdict.FAIL in found:
        return Verdict.FAIL
    return Verdict.UNDECIDED if Verdict.UNDECIDED in found else Verdict.PASS


def judge(name: str, gate: Gate, row: Row, baseline: Row) -> GateVerdict:
    """One gate on one variant.

    A variant whose status is not ok fails. A missing value is undecided, with the reason why it is missing.
    """
    metric = BY_NAME[gate.metric]
    reading = row.readings[metric.name]
    bound, no_bound = _bound(gate, baseline)
    if not row.ok:
        verdict, reason = Verdict.FAIL, f"{row.status.value}: {row.reason}"
    elif reading.value is None:
        verdict, reason = Verdict.UNDECIDED, f"{metric.title} is missing: {reading.reason}"
    elif bound is None:
        verdict, reason = Verdict.UNDECIDED, no_bound
    else:
        verdict, reason = _compare(metric, gate, row, reading.value, bound)
    return GateVerdict(gate=name, metric=metric.name, verdict=verdict, value=reading.value, bound=bound, reason=reason)


def describe(gate: Gate, baseline: Row) -> str:
    """The requirement in words, e.g. `Weights on disk ≤ 1 × fp16's (257 MiB)`."""
    metric = BY_NAME[gate.metric]
    bound, _ = _bound(gate, baseline)
    sign = "≥" if gate.at_least is not None else "≤"
    shown = metric.display(bound) if bound is not None else "unknown"
    if gate.relative:
        return f"{metric.title} {sign} {_given(gate):g} × {baseline.variant}'s ({shown})"
    return f"{metric.title} {sign} {shown}"


def _given(gate: Gate) -> float:
    given = gate.at_least if gate.at_least is not None else gate.at_most
    assert given is not None
    return given


def _bound(gate: Gate, baseline: Row) -> tuple[float | None, str]:
    """The bound in the metric's unit, or None and why there is none."""
    if not gate.relative:
        return _given(gate), ""
    base = baseline.readings[gate.metric]
    if base.value is None:
        return None, f"the bound is relative to the baseline {baseline.variant}, whose value is missing: {base.reason}"
    return _given(gate) * base.value, ""


def _compare(metric: Metric, gate: Gate, row: Row, value: float, bound: float) -> tuple[Verdict, str]:
    at_least = gate.at_least is not None
    shown, limit = metric.display(value), metric.display(bound)
    if metric.low is None or metric.high is None:
        met = value >= bound if at_least else value <= bound
        sign = ("≥" if met else "<") if at_least else ("≤" if met else ">")
        return (Verdict.PASS if met else Verdict.FAIL), f"{shown} {sign} {limit}"
    low, high = row.readings[metric.low], row.readings[metric.high]
    if low.value is None or high.value is None:
        return Verdict.UNDECIDED, f"{shown} has no interval: {low.reason or high.reason}"
    interval = f"{shown} ({cells.interval(metric, low.value, high.value)})"
    wanted = f"{'at least' if at_least else 'at most'} {limit}"
    worst, best = (low.value, high.value) if at_least else (-high.value, -low.value)
    edge = bound if at_least else -bound
    if worst >= edge:
        return Verdict.PASS, f"{interval}: the whole interval is {wanted}"
    if best < edge:
        return Verdict.FAIL, f"{interval}: none of the interval is {wanted}"
    leaning = "PASS" if (value >= bound if at_least else value <= bound) else "FAIL"
    more = row.samples[metric.name].to_decide(value, low.value, high.value, bound)
    return Verdict.UNDECIDED, f"{interval}: only part of it is {wanted}; it leans to {leaning}, and {more}"
