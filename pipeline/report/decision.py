"""Which variant to ship, and the one reason why each other one is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.params import Gate, Params
from pipeline.records import Decision, GateVerdict, VariantDecision, Verdict
from pipeline.report import cells, conditions, frontier, gates
from pipeline.report.rows import Row


@dataclass(frozen=True)
class Ranking:
    """Candidates, and the order of preference between them.

    A metric keeps those that cannot be told apart from its best; the next metric goes on among them. Of those still
    tied the baseline comes first, then the first name. A metric that is also compared turn by turn is ranked by that
    comparison, where every candidate that is left has it with its interval: two rates that were not measured at the
    same time differ by the machine's drift as well.
    """

    candidates: tuple[Row, ...]
    metrics: tuple[Metric, ...]
    tie: float

    def rounds(self) -> Iterator[tuple[Metric, list[Row]]]:
        """Each metric by which candidates were ranked, with those that are left after it."""
        left = list(self.candidates)
        for preferred in self.metrics:
            metric = _ranked_by(preferred, left)
            left = self._leaders(left, metric)
            yield metric, left

    def best(self) -> Row | None:
        *_, (_, left) = self.rounds()
        return min(left, key=lambda row: (not row.is_baseline, row.variant), default=None)

    def lost_on(self, row: Row) -> Metric | None:
        """The metric that put this candidate out; None when it was tied to the end."""
        return next((metric for metric, left in self.rounds() if row not in left), None)

    def _leaders(self, rows: Sequence[Row], metric: Metric) -> list[Row]:
        """Those that cannot be told apart from the best value; all of them when none has a value."""
        there = [row for row in rows if row.value(metric.name) is not None]
        if not there:
            return list(rows)
        sign = 1 if metric.higher_is_better else -1
        best = max(there, key=lambda row: sign * _value(row, metric))
        return [row for row in there if self._tied(row, best, metric)]

    def _tied(self, row: Row, best: Row, metric: Metric) -> bool:
        """Within the tie share of the best value, or with intervals of turn-by-turn ratios that do not separate them.

        They do when neither holds the other's value. Intervals of anything else are too wide for this: those of two
        scores on the same items overlap long after their paired difference is clear.
        """
        own, top = _value(row, metric), _value(best, metric)
        band = self.tie * abs(top)
        if abs(own - top) <= band:
            return True
        ours, theirs = _interval(row, metric), _interval(best, metric)
        if not metric.versus_baseline or ours is None or theirs is None:
            return False
        return ours[0] - band <= top <= ours[1] + band or theirs[0] <= own <= theirs[1]


def _ranked_by(metric: Metric, rows: Sequence[Row]) -> Metric:
    paired = BY_NAME[metric.paired] if metric.paired else None
    return paired if paired and all(_interval(row, paired) for row in rows) else metric


def _interval(row: Row, metric: Metric) -> tuple[float, float] | None:
    low, high = row.value(metric.low), row.value(metric.high)
    return None if low is None or high is None else (low, high)


def _value(row: Row, metric: Metric) -> float:
    value = row.value(metric.name)
    assert value is not None, "asked only of those that have a value"
    return value


def decide(
    params: Params, rows: Sequence[Row], conditions_sha256: str, extra_gates: Mapping[str, Gate] | None = None
) -> Decision:
    """The pick among the variants that are ok and pass every gate; none when there is no such variant."""
    asked = {**params.gates, **(extra_gates or {})}
    baseline = next(row for row in rows if row.is_baseline)
    verdicts = {row.variant: gates.judge_all(asked, row, baseline) for row in rows}
    overall = {row.variant: gates.overall(row, verdicts[row.variant]) for row in rows}
    ranking = Ranking(
        candidates=tuple(row for row in rows if overall[row.variant] is Verdict.PASS),
        metrics=tuple(BY_NAME[name] for name in params.decision.prefer),
        tie=params.decision.tie,
    )
    pick = ranking.best()
    return Decision(
        pick=pick.variant if pick else None,
        headline=_headline(pick, baseline, overall),
        baseline=baseline.variant,
        workload=params.decision.workload,
        prefer=list(params.decision.prefer),
        tie=params.decision.tie,
        frontier=[row.variant for row in rows if row.on_frontier],
        variants=[
            VariantDecision(
                variant=row.variant,
                status=row.status,
                verdict=overall[row.variant],
                on_frontier=row.on_frontier,
                dominated_by=list(row.dominated_by),
                gates=verdicts[row.variant],
                why=_why(row, pick, verdicts[row.variant], ranking, rows),
            )
            for row in rows
        ],
        params_sha256=conditions.params_sha256(params),
        conditions_sha256=conditions_sha256,
    )


# --- words -----------------------------------------------------------------------------------------------------


def _headline(pick: Row | None, baseline: Row, overall: Mapping[str, Verdict]) -> str:
    if pick is None:
        undecided = [variant for variant, verdict in overall.items() if verdict is Verdict.UNDECIDED]
        if not undecided:
            return "No variant can be shipped: none passes every gate."
        return f"No variant can be shipped yet: none passes every gate. Undecided: {', '.join(undecided)}."
    if pick.is_baseline:
        others = {variant: verdict for variant, verdict in overall.items() if variant != pick.variant}
        return f"Ship {pick.variant}, the baseline. {_grouped(others)}".rstrip()
    return f"Ship {pick.variant}: {trade(pick, baseline)}."


def _grouped(overall: Mapping[str, Verdict]) -> str:
    """The variants that are not shipped, by what became of them."""
    words = {Verdict.PASS: "ranked lower", Verdict.UNDECIDED: "undecided", Verdict.FAIL: "failing"}
    groups = {word: [name for name, verdict in overall.items() if verdict is wanted] for wanted, word in words.items()}
    text = "; ".join(f"{word}: {', '.join(names)}" for word, names in groups.items() if names)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def trade(row: Row, baseline: Row) -> str:
    """What a variant gives and takes against the baseline, in one line."""
    parts = []
    if row.value("speedup") is not None:
        parts.append(f"{cells.of_row(row, BY_NAME['speedup'])} the decode speed of {baseline.variant}")
    own, base = row.value("weight_bytes"), baseline.value("weight_bytes")
    if own is not None and base:
        parts.append(f"{100 * own / base:.0f} % of its weight bytes")
    if row.value("quality_delta") is not None:
        parts.append(f"quality {cells.of_row(row, BY_NAME['quality_delta'])}")
    return ", ".join(parts) or f"nothing can be compared to {baseline.variant}"


def _why(row: Row, pick: Row | None, verdicts: Sequence[GateVerdict], ranking: Ranking, rows: Sequence[Row]) -> str:
    if not row.ok:
        return f"{row.status.value}: {row.reason}"
    reason = _place(row, pick, verdicts, ranking, rows)
    baseline = next(other for other in rows if other.is_baseline)
    return f"{reason}; {_kernel(row, baseline)}" if row.kernel_note else reason


def _kernel(row: Row, baseline: Row) -> str:
    """That the kernel is not native, and that the variant is slower, where it is."""
    speedup = row.value("speedup")
    if row.is_baseline or speedup is None or speedup >= 1:
        return row.kernel_note
    return f"{BY_NAME['speedup'].display(speedup)} the decode speed of {baseline.variant}, {row.kernel_note}"


def _place(row: Row, pick: Row | None, verdicts: Sequence[GateVerdict], ranking: Ranking, rows: Sequence[Row]) -> str:
    """Where a variant that works stands among the others."""
    failed = [v for v in verdicts if v.verdict is Verdict.FAIL]
    undecided = [v for v in verdicts if v.verdict is Verdict.UNDECIDED]
    if failed:
        return "; ".join(f"gate {v.gate} FAIL: {v.reason}" for v in failed)
    if undecided:
        open_gates = "; ".join(f"gate {v.gate} is UNDECIDED: {v.reason}" for v in undecided)
        return f"not shipped while undecided: {open_gates}"
    assert pick is not None, "a variant that passes every gate is a candidate, so there is a pick"
    if row.variant == pick.variant:
        return _why_picked(pick, ranking)
    if pick.variant in row.dominated_by:
        return f"dominated by {pick.variant}: {_beaten(row, pick, rows)}"
    metric = ranking.lost_on(row)
    if metric is None:
        first = "which is the baseline" if pick.is_baseline else "whose name comes first"
        return f"tied on every preferred metric with {pick.variant}, {first}"
    own, theirs = cells.of_row(row, metric), cells.of_row(pick, metric)
    return f"ranked lower on {metric.title}: {own} against {theirs} of {pick.variant}"


def _why_picked(pick: Row, ranking: Ranking) -> str:
    rivals = [row for row in ranking.candidates if row.variant != pick.variant]
    if not rivals:
        return "the only variant that passes every gate"
    decisive = {metric.name for row in rivals if (metric := ranking.lost_on(row))}
    named = [metric.title for metric, _ in ranking.rounds() if metric.name in decisive]
    return (
        f"passes every gate and leads on {' then '.join(named)}" if named else "passes every gate, tied with the rest"
    )


def _beaten(row: Row, rival: Row, rows: Sequence[Row]) -> str:
    """The axes of the frontier on which the rival is better, with both numbers."""
    parts = []
    for axis in frontier.axes(other.readings for other in rows if other.ok):
        own, theirs = row.value(axis.name), rival.value(axis.name)
        if own is not None and theirs is not None and own != theirs:
            parts.append(f"{axis.title} {axis.display(own)} against {axis.display(theirs)}")
    return ", ".join(parts)
