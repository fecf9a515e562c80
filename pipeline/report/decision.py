"""Which variant to ship under a profile, and the one reason why each other one is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.errors import UserError, nearest
from pipeline.params import Gate, Params
from pipeline.records import Decision, GateVerdict, VariantDecision, Verdict
from pipeline.report import conditions, frontier, gates, nearest_to_passing, score
from pipeline.report.ranking import Ranking
from pipeline.report.reasons import Reasons
from pipeline.report.rows import Row


def decide(
    params: Params,
    rows: Sequence[Row],
    conditions_sha256: str,
    extra_gates: Mapping[str, Gate] | None = None,
    profile: str | None = None,
) -> Decision:
    """The pick among the variants that are ok and pass every gate; none when there is no such variant.

    Args:
        extra_gates: judged like those of params.yaml.
        profile: instead of `decision.profile`.

    Raises:
        UserError: there is no such profile.
    """
    asked = {**params.gates, **(extra_gates or {})}
    chosen = _profile(params, profile)
    baseline = next(row for row in rows if row.is_baseline)
    verdicts = {row.variant: gates.judge_all(asked, row, baseline) for row in rows}
    overall = {row.variant: gates.overall(row, verdicts[row.variant]) for row in rows}
    rankings = {name: _ranking(params, rows, overall, name) for name in params.decision.profiles}
    ranking = rankings[chosen]
    pick = ranking.pick
    lacking = [] if pick else nearest_to_passing.sentences(rows, verdicts, asked)
    reasons = Reasons(
        profile=chosen,
        rows=tuple(rows),
        overall=overall,
        ranking=ranking,
        lacking=tuple(lacking),
        axes=frontier.default_axes(params),
    )
    return Decision(
        pick=pick.variant if pick else None,
        headline=reasons.headline(),
        baseline=baseline.variant,
        workload=params.decision.workload,
        profile=chosen,
        weights={weight.axis.name: weight.share for weight in ranking.weights},
        profiles={name: found.pick.variant if found.pick else None for name, found in rankings.items()},
        tie=params.decision.tie,
        would_have_to_give=lacking,
        axes=list(params.decision.frontier),
        frontier=[row.variant for row in rows if row.on_frontier],
        variants=[_decided(row, verdicts[row.variant], reasons) for row in rows],
        params_sha256=conditions.params_sha256(params),
        conditions_sha256=conditions_sha256,
    )


def _profile(params: Params, asked: str | None) -> str:
    name = params.decision.profile if asked is None else asked
    if name not in params.decision.profiles:
        raise UserError(f"no profile {name!r} in decision.profiles; {nearest(name, list(params.decision.profiles))}")
    return name


def _ranking(params: Params, rows: Sequence[Row], overall: Mapping[str, Verdict], profile: str) -> Ranking:
    baseline = next(row for row in rows if row.is_baseline)
    weights = score.shares(params.decision.profiles[profile].weights, frontier.plain(params))
    return Ranking(
        candidates=tuple(row for row in rows if overall[row.variant] is Verdict.PASS),
        baseline=baseline,
        weights=weights,
        scores={row.variant: score.of(row, baseline, weights) for row in rows},
        tie=params.decision.tie,
    )


def _decided(row: Row, verdicts: list[GateVerdict], reasons: Reasons) -> VariantDecision:
    found = reasons.ranking.scores[row.variant]
    return VariantDecision(
        variant=row.variant,
        status=row.status,
        verdict=reasons.overall[row.variant],
        on_frontier=row.on_frontier,
        dominated_by=list(row.dominated_by),
        score=found.value,
        score_ci_low=found.low,
        score_ci_high=found.high,
        tied_with=reasons.ranking.tied_with(row),
        gates=verdicts,
        why=reasons.why(row, verdicts),
    )
