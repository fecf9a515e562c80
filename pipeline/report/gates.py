"""Gates with three verdicts. An interval decides where there is one: PASS when all of it meets the bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline import gate_bounds
from pipeline.metrics import latency
from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.metrics.metric import Narrows
from pipeline.metrics.samples import Need
from pipeline.metrics.scope import Measured, narrow
from pipeline.params import Gate
from pipeline.records import GateVerdict, Verdict
from pipeline.report import cells
from pipeline.report.breakdown import failures
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

    A variant whose status is not ok fails, and so does one that answered no request of the workload that the gate is
    of. Any other missing value is undecided, with the reason why it is missing.
    """
    metric = BY_NAME[gate.metric]
    measured = row.measure(metric, gate.scope)
    bound, no_bound = _bound(gate, baseline)
    judged = _without_value(metric, gate, row, measured)
    if judged is None and bound is None:
        judged = Judged(Verdict.UNDECIDED, no_bound)
    if judged is None:
        assert bound is not None, "else it is judged already"
        base = _base(gate, baseline) if gate.relative else None
        judged = compare(metric, measured, bound, at_least=gate.at_least is not None, base=base)
    return GateVerdict(
        gate=name,
        metric=metric.name,
        verdict=judged.verdict,
        value=measured.value.value,
        bound=bound,
        reason=judged.reason,
        workload=gate.workload,
        concurrency=gate.concurrency,
        eval_set=gate.eval_set,
        category=gate.category,
        passes_at=judged.passes_at,
        fails_at=judged.fails_at,
        more=judged.need.more if judged.need else None,
        more_of=judged.need.of if judged.need else None,
    )


def describe(gate: Gate, baseline: Row) -> str:
    """The requirement in words, e.g. `Decode speed vs baseline of instruction at 8 streams ≥ 1.30×`."""
    metric = BY_NAME[gate.metric]
    bound, _ = _bound(gate, baseline)
    what = " of ".join(filter(None, (metric.title, str(gate.scope))))
    sign = "≥" if gate.at_least is not None else "≤"
    shown = metric.display(bound) if bound is not None else "unknown"
    return (
        f"{what} {sign} {gate.bound:g} × {baseline.variant}'s ({shown})" if gate.relative else f"{what} {sign} {shown}"
    )


@dataclass(frozen=True)
class Judged:
    verdict: Verdict
    reason: str
    """Short enough for a cell."""
    passes_at: float | None = None
    fails_at: float | None = None
    """As in `GateVerdict`."""
    need: Need | None = None
    """What would decide it."""


def compare(metric: Metric, measured: Measured, bound: float, *, at_least: bool, base: float | None = None) -> Judged:
    """A value that is there against a bound in the metric's unit: PASS when the least favourable value that the
    measurement allows meets it, FAIL when the most favourable one does not.

    Args:
        base: what the bound is a multiple of, where it is; other bounds are then advised as multiples.
    """
    worst, best = _ends(metric, measured, at_least=at_least)
    sign = 1 if at_least else -1
    if worst is not None and sign * worst >= sign * bound:
        return Judged(Verdict.PASS, _decided(metric, measured, bound, at_least, met=True), worst, best)
    if best is not None and sign * best < sign * bound:
        return Judged(Verdict.FAIL, _decided(metric, measured, bound, at_least, met=False), worst, best)
    reason, need = _undecided(metric, measured, bound, at_least, base)
    return Judged(Verdict.UNDECIDED, reason, worst, best, need)


def _without_value(metric: Metric, gate: Gate, row: Row, measured: Measured) -> Judged | None:
    """None where there is a value to compare."""
    if not row.ok:
        return Judged(Verdict.FAIL, f"{row.status.value}: {row.reason}")
    unanswered = _unanswered(metric, gate, row)
    if unanswered:
        return Judged(Verdict.FAIL, f"no request was answered: {unanswered}")
    if measured.value.value is None:
        return Judged(Verdict.UNDECIDED, f"{metric.title} is missing: {measured.value.reason}")
    return None


def _unanswered(metric: Metric, gate: Gate, row: Row) -> str | None:
    """Why the variant answered no request of the workload at the concurrency that the gate is of, if so."""
    if metric.narrows is not Narrows.WORKLOAD:
        return None
    part = narrow(row.evidence, gate.scope)
    readings = part.readings(part.headline)
    if readings is None or latency.variant_requests(readings):
        return None
    return failures.unanswered(part, readings.workload, readings.concurrency)


def _bound(gate: Gate, baseline: Row) -> tuple[float | None, str]:
    """The bound in the metric's unit, or None and why there is none."""
    if not gate.relative:
        return gate.bound, ""
    base = baseline.measure(BY_NAME[gate.metric], gate.scope).value
    relative = f"the bound is relative to the baseline {baseline.variant}, whose value is"
    if base.value is None:
        return None, f"{relative} missing: {base.reason}"
    if base.value == 0 and gate.at_least is not None:
        return None, f"{relative} 0, and anything is at least a multiple of that; give the bound itself"
    return gate.bound * base.value, ""


def _base(gate: Gate, baseline: Row) -> float | None:
    return baseline.measure(BY_NAME[gate.metric], gate.scope).value.value


def advised(metric: Metric, value: float, base: float | None, *, up: bool) -> str:
    """A bound as it can be put into params.yaml, rounded upwards or downwards; see `compare` for `base`."""
    if base:
        return f"{gate_bounds.multiple(value, base, up=up)} × the baseline's"
    return gate_bounds.written(metric, value, up=up)


def _ends(metric: Metric, measured: Measured, *, at_least: bool) -> tuple[float | None, float | None]:
    """The least favourable and the most favourable value that the measurement allows; the value where it is exact."""
    if metric.low is None or metric.high is None:
        return measured.value.value, measured.value.value
    low = measured.low.value if measured.low else None
    high = measured.high.value if measured.high else None
    return (low, high) if at_least else (high, low)


# --- words -----------------------------------------------------------------------------------------------------


def _decided(metric: Metric, measured: Measured, bound: float, at_least: bool, *, met: bool) -> str:
    if metric.low is None:
        return _exact(metric, measured, bound, at_least, met)
    part = "the whole interval is" if met else "none of the interval is"
    wanted = _wanted(metric, bound, at_least)
    return f"{_with_interval(metric, measured)}: {part} {wanted}{_closely(metric, measured, bound)}"


def _exact(metric: Metric, measured: Measured, bound: float, at_least: bool, met: bool) -> str:
    """A value without an interval; of a count what it is of, and of a count of 0 what that rules out."""
    sign = ("≥" if met else "<") if at_least else ("≤" if met else ">")
    value, exposed = _value(measured), measured.exposed
    shown, limit = gate_bounds.told_apart(metric, value, bound)
    found = f"{shown} {sign} {limit}"
    if exposed is None:
        return found
    return f"{found}, {exposed}; {exposed.none_seen()}" if value == 0 else f"{found}, {exposed}"


def _closely(metric: Metric, measured: Measured, bound: float) -> str:
    """Both in full where an end of the interval would look like the bound but is another value."""
    for end in (measured.low, measured.high):
        if end and end.value is not None and metric.display(end.value) == metric.display(bound) and end.value != bound:
            full, limit = gate_bounds.told_apart(metric, end.value, bound)
            return f" (it ends at {full}, the bound is {limit})"
    return ""


def _undecided(
    metric: Metric, measured: Measured, bound: float, at_least: bool, base: float | None
) -> tuple[str, Need | None]:
    assert measured.low is not None, "a value without an interval is decided"
    assert measured.high is not None, "there are both ends, if only as missing"
    low, high, value = measured.low.value, measured.high.value, _value(measured)
    shown, absent = _with_interval(metric, measured), measured.low.reason or measured.high.reason
    if low is None and high is None:
        return f"{shown} has no interval: {absent}", None
    assert measured.sample is not None, "what has an interval has a sample"
    outer = -math.inf if low is None else low, math.inf if high is None else high
    need = measured.sample.to_decide(value, *outer, bound)
    shown += f": {absent or f'only part of it is {_wanted(metric, bound, at_least)}'}"
    shown += _closely(metric, measured, bound)
    if need.more is None:
        return f"{shown}; {_too_near(metric, measured, at_least, base)}", need
    met = value >= bound if at_least else value <= bound
    return f"{shown}; it leans to {'PASS' if met else 'FAIL'}, and {need.words}", need


def _too_near(metric: Metric, measured: Measured, at_least: bool, base: float | None) -> str:
    """What a person can do where no practical sample decides; each bound is rounded to the side that it is said of."""
    worst, best = _ends(metric, measured, at_least=at_least)
    passes = f"{advised(metric, worst, base, up=not at_least)} would PASS now" if worst is not None else None
    beyond = "above" if at_least else "below"
    fails = f"{beyond} {advised(metric, best, base, up=at_least)} FAIL" if best is not None else None
    return (
        "so near the bound that no practical number of more decides it: accept it or move the bound "
        f"({', '.join(filter(None, (passes, fails)))})"
    )


def _wanted(metric: Metric, bound: float, at_least: bool) -> str:
    return f"{'at least' if at_least else 'at most'} {metric.display(bound)}"


def _with_interval(metric: Metric, measured: Measured) -> str:
    """The value with as much of its interval as is known."""
    shown = metric.display(_value(measured))
    low = measured.low.value if measured.low else None
    high = measured.high.value if measured.high else None
    if low is not None and high is not None:
        return f"{shown} ({cells.interval(metric, low, high)})"
    if low is not None:
        return f"{shown} ({metric.display(low)} or more)"
    return f"{shown} ({metric.display(high)} or less)" if high is not None else shown


def _value(measured: Measured) -> float:
    assert measured.value.value is not None, "a missing value is not compared"
    return measured.value.value
