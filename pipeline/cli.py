"""The `quantgate` command. Heavy packages are imported inside the commands: `--help` must stay fast."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commands import diff, eval_set, toolchain
from pipeline.error_lists import shortened
from pipeline.errors import UserError

if TYPE_CHECKING:
    from pipeline.params import Gate
    from pipeline.records import VariantDecision
    from pipeline.report.analysis import Analysis

PROGRAM = "quantgate"
EXIT_CODES = {"PASS": 0, "FAIL": 1, "UNDECIDED": 2}
"""Of `gate`, by verdict."""
USER_ERROR, CRASH = 3, 70

app = typer.Typer(help="Which quantization level of our LLM do we ship?", no_args_is_help=True, add_completion=False)
app.add_typer(eval_set.app, name="eval-set")
app.add_typer(toolchain.app, name="toolchain")
app.command()(diff.diff)


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

    stages = retrying.failed_stages(params.load(), variants or [])
    if not stages:
        typer.echo("nothing failed")
        return
    typer.echo(f"running again: {', '.join(stages)}")
    raise typer.Exit(retrying.run(stages))


@app.command()
def show() -> None:
    """Print the table of all variants; one that is older than an eval set is shown with a warning."""
    from rich.console import Console

    from pipeline.report import terminal

    analysis = _analysis(refuses_old_sets=False)
    console = Console()
    console.print(terminal.table(analysis, console.width), terminal.footnotes(analysis))


@app.command()
def recommend(
    max_memory_gib: Annotated[float | None, typer.Option(help="Peak memory must not exceed this many GiB.")] = None,
    min_quality: Annotated[
        float | None, typer.Option(min=0, max=1, help="Quality, 0 to 1, must be at least this.")
    ] = None,
    min_decode_tps: Annotated[
        float | None, typer.Option(help="Decode tokens per second of one stream must be at least this.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the decision as JSON.")] = False,
) -> None:
    """Print which variant to ship, and why not the others. Options are gates beside those of params.yaml."""
    from pipeline import store

    analysis = _analysis(_extra_gates(max_memory_gib, min_quality, min_decode_tps))
    if as_json:
        typer.echo(store.to_json(analysis.decision.model_dump(mode="json")), nl=False)
        return
    typer.echo(analysis.decision.headline)
    for decided in analysis.decision.variants:
        typer.echo(f"  {decided.variant}: {decided.why}")


@app.command()
def gate(
    variant: Annotated[str | None, typer.Argument(help="The variant to judge; by default the recommended one.")] = None,
) -> None:
    """Judge a variant by the gates of params.yaml: exit code 0 pass, 1 fail, 2 undecided, 3 a report that is too old.

    Without a name it judges the recommended variant. When there is none: undecided if any variant is, else fail.
    """
    from pipeline.errors import nearest
    from pipeline.records import Verdict

    decision = _analysis().decision
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
        typer.echo(f"  {verdict.verdict.value:9} {verdict.gate}: {verdict.reason}")
    if not decided.gates:
        typer.echo(f"  no gates; the status is {decided.status.value}")


def _analysis(extra_gates: dict[str, Gate] | None = None, *, refuses_old_sets: bool = True) -> Analysis:
    """What the records say of params.yaml as it is now.

    Raises:
        UserError: the records were made under other params, or, unless that is but warned of, on other eval sets.
    """
    from pipeline import params
    from pipeline.report import freshness
    from pipeline.report.analysis import analyse

    settings = params.load()
    stale, old_sets = list(freshness.param_problems(settings)), list(freshness.eval_set_problems(settings))
    if stale or (old_sets and refuses_old_sets):
        raise UserError(stale + old_sets)
    for problem in old_sets:
        typer.echo(f"warning: {problem}", err=True)
    return analyse(settings, extra_gates)


def _extra_gates(
    max_memory_gib: float | None, min_quality: float | None, min_decode_tps: float | None
) -> dict[str, Gate]:
    """Options of `recommend` as gates, named after them."""
    from pipeline.metrics.display import GIB
    from pipeline.params import Gate

    _require_amounts({"--max-memory-gib": max_memory_gib, "--min-decode-tps": min_decode_tps})
    found = {}
    if max_memory_gib is not None:
        found["--max-memory-gib"] = Gate(metric="peak_memory_bytes", at_most=max_memory_gib * GIB)
    if min_quality is not None:
        found["--min-quality"] = Gate(metric="quality", at_least=min_quality)
    if min_decode_tps is not None:
        found["--min-decode-tps"] = Gate(metric="decode_tokens_per_s", at_least=min_decode_tps)
    return found


def _require_amounts(options: dict[str, float | None]) -> None:
    import math

    found = [
        f"{name}: {value:g} is no amount; give a number of 0 or more"
        for name, value in options.items()
        if value is not None and not (math.isfinite(value) and value >= 0)
    ]
    if found:
        raise UserError(found)


def main() -> None:
    """Run the command. A user's mistake is printed without a traceback and exits with 3, a wrong option included:
    typer's own 2 would read as `gate`'s undecided."""
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
