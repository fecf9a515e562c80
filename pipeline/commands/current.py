"""What the records say of params.yaml as it is now, for every command that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pipeline.errors import UserError

if TYPE_CHECKING:
    from pipeline.params import Gate
    from pipeline.report.analysis import Analysis


def analysis(
    extra_gates: dict[str, Gate] | None = None, profile: str | None = None, *, refuses_old_sets: bool = True
) -> Analysis:
    """Analysis of the records; see `pipeline.report.analysis.analyse`.

    Raises:
        UserError: there are no records, or they were made under other params, or, unless that is but warned of, on
            other eval sets.
    """
    from pipeline import params, store
    from pipeline.report import freshness
    from pipeline.report.analysis import analyse

    settings = params.load()
    if not any(store.REPORTS.glob("*/*.json")):
        raise UserError(f"{store.REPORTS}/ holds no record of any variant yet; run `dvc repro`")
    stale, old_sets = list(freshness.param_problems(settings)), list(freshness.eval_set_problems(settings))
    if stale or (old_sets and refuses_old_sets):
        raise UserError(stale + old_sets)
    for problem in old_sets:
        typer.echo(f"warning: {problem}", err=True)
    return analyse(settings, extra_gates, profile)
