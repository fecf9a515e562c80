"""The `quantgate` command. Heavy packages are imported inside the commands: `--help` must stay fast."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline import processes
from pipeline.commands import current, diff, eval_set, recommendation, rescue, toolchain
from pipeline.error_lists import shortened
from pipeline.errors import UserError

if TYPE_CHECKING:
    from pipeline.records import VariantDecision

PROGRAM = "quantgate"
EXIT_CODES = {"PASS": 0, "FAIL": 1, "UNDECIDED": 2}
"""Of `gate`, by verdict."""
USER_ERROR, CRASH = 3, 70

app = typer.Typer(help="Which quantization level of our LLM do we ship?", no_args_is_help=True, add_completion=False)
app.add_typer(eval_set.app, name="eval-set")
app.add_typer(toolchain.app, name="toolchain")
for command in (recommendation.show, recommendation.recommend, recommendation.frontier, diff.diff, rescue.rescue):
    app.command()(command)


@app.command()
def check() -> None:
    """Find everything that is wrong with params.yaml and what it points to, in seconds, before any work."""
    from pipeline import preflight
    from pipeline.report.breakdown.words import counted

    checked = preflight.check()
    settings = checked.settings
    for note in checked.notes:
        typer.echo(f"note: {note}")
    later = "" if preflight.model_in_reach(settings) else "; layer shapes are checked once the base model is there"
    variants = counted(len(settings.variants), "variant", "variants")
    eval_sets = counted(len(settings.eval_sets), "eval set", "eval sets")
    typer.echo(f"params.yaml is good: {variants}, {eval_sets}{later}")


@app.command()
def retry(
    variants: Annotated[list[str] | None, typer.Argument(help="Variants to look at; all by default.")] = None,
) -> None:
    """Run again what failed, was invalid or ended early, and what depends on it."""
    from pipeline import params
    from pipeline import retry as retrying
    from pipeline.report.breakdown.words import counted

    settings = params.load()
    stages = retrying.failed_stages(settings, variants or [])
    if not stages:
        unmade = len(retrying.unmade(settings, variants or []))
        more = f"; {counted(unmade, 'record is', 'records are')} still to be made: run `dvc repro`" if unmade else ""
        typer.echo(f"nothing failed{more}")
        return
    typer.echo(f"running again: {', '.join(stages)}")
    raise typer.Exit(retrying.run(stages))


@app.command()
def gate(
    variant: Annotated[str | None, typer.Argument(help="The variant to judge; by default the recommended one.")] = None,
) -> None:
    """Judge a variant by the gates of params.yaml: exit code 0 pass, 1 fail, 2 undecided, 3 a report that is too old.

    Without a name it judges the recommended variant. When there is none: undecided if any variant is, else fail.
    """
    from pipeline.errors import nearest
    from pipeline.records import Verdict

    decision = current.analysis().decision
    by_name = {decided.variant: decided for decided in decision.variants}
    if variant is not None and variant not in by_name:
        raise UserError(f"no variant {variant!r} in params.yaml; {nearest(variant, list(by_name))}")
    for decided in by_name.values() if variant is None else [by_name[variant]]:
        _print_verdicts(decided)
    judged = variant or decision.pick
    if judged is None:
        undecided = any(decided.verdict is Verdict.UNDECIDED for decided in by_name.values())
        verdict = Verdict.UNDECIDED if undecided else Verdict.FAIL
        typer.echo(f"{verdict.value}: no variant passes every gate")
        raise typer.Exit(EXIT_CODES[verdict])
    verdict = by_name[judged].verdict
    typer.echo(f"{verdict.value}: {judged}")
    raise typer.Exit(EXIT_CODES[verdict])


def _print_verdicts(decided: VariantDecision) -> None:
    typer.echo(f"{decided.variant}: {decided.verdict.value}")
    for verdict in decided.gates:
        typer.echo(f"  {verdict.verdict.value:9} {verdict.gate}: {' '.join(verdict.reason.split())}")
    if not decided.gates:
        typer.echo(f"  no gates; the status is {decided.status.value}")


def main() -> None:
    """Run the command. A user's mistake is printed without a traceback and exits with 3, a wrong option included:
    typer's own 2 would read as `gate`'s undecided."""
    processes.exit_on_signals()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Not every terminal can show a minus sign or ×; a question mark in its place would hide the sign.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(app(prog_name=PROGRAM, standalone_mode=False))
    except typer.TyperException as error:
        message = error.format_message() or "No command was given."
        context = getattr(error, "ctx", None)
        command = context.command_path if context else PROGRAM
        stop = "" if message.endswith((".", "?")) else "."
        problems: tuple[str, ...] = (f"{message}{stop} See `{command} --help`.",)
    except UserError as error:
        problems = error.problems
    except typer.Abort:
        problems = ("interrupted",)
    except Exception:
        # A defect must not exit with 1, which `gate` gives a meaning.
        import traceback

        traceback.print_exc()
        sys.exit(CRASH)
    for problem in shortened(problems):
        print(f"error: {problem}", file=sys.stderr)
    sys.exit(USER_ERROR)


if __name__ == "__main__":
    main()
