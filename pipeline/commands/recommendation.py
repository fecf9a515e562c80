"""`quantgate show`, `recommend` and `frontier`: what the records say, for people at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commands import current
from pipeline.errors import UserError

if TYPE_CHECKING:
    from pipeline.params import Gate


def show() -> None:
    """Print the table of all variants; one that is older than an eval set is shown with a warning."""
    from rich.console import Console

    from pipeline.report import terminal

    analysis = current.analysis(refuses_old_sets=False)
    console = Console()
    console.print(terminal.table(analysis, console.width), terminal.footnotes(analysis))


def recommend(
    profile: Annotated[
        str | None, typer.Option(help="A profile of params.yaml that ranks instead of decision.profile.")
    ] = None,
    max_memory_gib: Annotated[float | None, typer.Option(help="Peak memory must not exceed this many GiB.")] = None,
    min_quality: Annotated[
        float | None, typer.Option(min=0, max=1, help="Quality, 0 to 1, must be at least this.")
    ] = None,
    min_decode_tps: Annotated[
        float | None, typer.Option(help="Decode tokens per second of one stream must be at least this.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the decision as JSON.")] = False,
) -> None:
    """Print which variant to ship, and why not the others. --max and --min are gates beside those of params.yaml."""
    from pipeline import store

    analysis = current.analysis(_extra_gates(max_memory_gib, min_quality, min_decode_tps), profile)
    if as_json:
        typer.echo(store.to_json(analysis.decision.model_dump(mode="json")), nl=False)
        return
    typer.echo(analysis.decision.headline)
    for decided in analysis.decision.variants:
        typer.echo(f"  {decided.variant}: {' '.join(decided.why.split())}")
    # The headline tells the first of them.
    for sentence in analysis.decision.would_have_to_give[1:]:
        typer.echo(f"{sentence}.")
    typer.echo(f"Ranked by {analysis.ranked_by}; {analysis.tie}.")
    if analysis.other_profiles:
        typer.echo(f"It would be {analysis.other_profiles}.")


def frontier(
    axes: Annotated[
        str | None, typer.Option(help="Axes with commas between; those of decision.frontier by default.")
    ] = None,
) -> None:
    """Print which variants no other one beats beyond the uncertainty, and by what the others are beaten.

    An axis is METRIC, METRIC@WORKLOAD, METRIC@WORKLOAD:STREAMS or METRIC@EVAL_SET, such as speedup@instruction:8.
    """
    from pipeline.report import frontier_words

    analysis = current.analysis()
    for line in frontier_words.lines(analysis, axes.split(",") if axes is not None else None):
        typer.echo(line.replace("\r", " ").replace("\n", " "))


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
