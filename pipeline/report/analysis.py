"""From params.yaml and the records to everything a report shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline import records, store
from pipeline.errors import UserError
from pipeline.metrics.catalogue import BY_NAME
from pipeline.params import Gate, Params
from pipeline.records import Decision, VariantDecision
from pipeline.report import conditions, decision, gather
from pipeline.report.gather import Gathered
from pipeline.report.rows import Row, build


@dataclass(frozen=True)
class Analysis:
    params: Params
    gathered: Gathered
    rows: tuple[Row, ...]
    decision: Decision

    @property
    def baseline(self) -> Row:
        return next(row for row in self.rows if row.is_baseline)

    @property
    def ranked_by(self) -> str:
        """The preferred metrics by the titles that the tables show, each with the ratio that ranks it."""
        return ", then ".join(map(_ranked_by, self.decision.prefer))

    @property
    def tie(self) -> str:
        """What counts as equal in the ranking, in words."""
        return (
            f"values within {100 * self.decision.tie:g} % are a tie, and so are two ratios to the baseline where the "
            "interval of one holds the other"
        )

    def decided(self) -> list[tuple[Row, VariantDecision]]:
        """Each row with what was decided about it."""
        return list(zip(self.rows, self.decision.variants, strict=True))


def _ranked_by(name: str) -> str:
    metric = BY_NAME[name]
    return f"{metric.title} (by its ratio to the baseline's)" if metric.paired else metric.title


def require_current(params: Params) -> None:
    """Refuse to answer from records that were made under other params.

    Raises:
        UserError: naming each part of params.yaml that has changed since the report was made.
    """
    path = store.REPORTS / "decision.json"
    if not path.exists():
        return
    made = records.load(path, Decision).params_sha256
    now = conditions.params_sha256(params)
    changed = [name for name, value in now.items() if made.get(name) != value]
    if changed:
        raise UserError(f"params.yaml has changed since the reports were made ({', '.join(changed)}); run `dvc repro`")


def analyse(params: Params, extra_gates: Mapping[str, Gate] | None = None) -> Analysis:
    """Read, compare and decide. Extra gates are judged like those of params.yaml.

    Raises:
        UserError: records are missing or do not belong in one table.
    """
    gathered = gather.gather(params)
    rows = build(params, gathered)
    decided = decision.decide(params, rows, conditions.sha256(params, gathered), extra_gates)
    return Analysis(params=params, gathered=gathered, rows=rows, decision=decided)
