"""`quantgate eval-set`: begin, check and import eval sets."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.errors import UserError

app = typer.Typer(help="Begin, check or import an eval set.", no_args_is_help=True)


@app.command()
def new(name: Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")]) -> None:
    """Write eval_sets/NAME with a commented card and three sample items."""
    from pipeline.eval_sets import scaffold

    for path in scaffold.create(name):
        typer.echo(path)
    typer.echo(f"edit both, then run `quantgate eval-set check {name}`; docs/eval-sets.md explains the format")


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="Folder below eval_sets.")],
    margin: Annotated[
        float | None, typer.Option(min=0.001, max=0.5, help="Loss of quality to rule out, 0 to 1; else the card's.")
    ] = None,
    calibration: Annotated[
        str | None, typer.Option(help="Calibration set to look for leaks into; else all of them.")
    ] = None,
) -> None:
    """Tell what is wrong with an eval set (exit code 3) and what is doubtful (exit code 0)."""
    from pipeline.eval_sets import lint, scaffold

    outside = list(scaffold.outside_problems())
    if outside:
        raise UserError(outside)
    found = lint.check(name, margin, calibration)
    for warning in found.warnings:
        typer.echo(f"warning: {warning}")
    for note in found.notes:
        typer.echo(note)
    if found.errors:
        raise UserError(found.errors)
    typer.echo("no errors; see the warnings" if found.warnings else "nothing to mend")


@app.command("import")
def import_(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A file, or hub:owner/name.")],
    name: Annotated[str, typer.Argument(help="Folder to make below eval_sets.")],
    source_format: Annotated[
        str | None, typer.Option("--format", help="promptfoo, openai-evals, lm-eval or csv; needed for a file.")
    ] = None,
    scorer: Annotated[str | None, typer.Option(help="How answers are compared, where the source does not say.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Room for an answer.")] = None,
    language: Annotated[str | None, typer.Option(help="Of the items, such as en.")] = None,
    licence: Annotated[str | None, typer.Option(help="Of the items.")] = None,
    prompt_field: Annotated[str | None, typer.Option(help="Column of the questions; csv and hub.")] = None,
    answer_field: Annotated[str | None, typer.Option(help="Column of the answers; csv and hub.")] = None,
    choices_field: Annotated[str | None, typer.Option(help="Column of the choices; csv and hub.")] = None,
    category_field: Annotated[str | None, typer.Option(help="Column of the categories; csv and hub.")] = None,
    revision: Annotated[str | None, typer.Option(help="Commit of the hub data set, 40 digits.")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the hub data set, such as test or test[:200].")] = None,
    config: Annotated[str | None, typer.Option(help="Configuration of the hub data set.")] = None,
) -> None:
    """Make eval_sets/NAME from another tool's file or a hub data set; what cannot be carried over is refused."""
    from pipeline.eval_sets import importing
    from pipeline.eval_sets.importers import Options

    options = Options(
        scorer=scorer,
        prompt_field=prompt_field,
        answer_field=answer_field,
        choices_field=choices_field,
        category_field=category_field,
        revision=revision,
        split=split,
        config=config,
    )
    told = importing.run(
        source, name, source_format, options, language=language, licence=licence, max_new_tokens=max_new_tokens
    )
    for line in told:
        typer.echo(line)
    typer.echo(f"look it through, then run `quantgate eval-set check {name}`")
