"""`quantgate rescue`: keep the layers that lose most in 16 bits. Heavy packages are imported inside the command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from pipeline.artifact_records import Manifest
    from pipeline.sensitivity_records import Proposal

SHOWN = 15
"""Parts in the table."""


def rescue(
    variant: Annotated[str, typer.Argument(help="One that fails on quality, or is undecided on it.")],
    extra_mib: Annotated[float | None, typer.Option(help="MiB that its weight files may grow by.")] = None,
    max_size_ratio: Annotated[
        float | None, typer.Option(help="Its weight files over the baseline's, at most; an alternative to --extra-mib.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=32, help="Of the fidelity text, to measure layers on.")] = 512,
    apply: Annotated[bool, typer.Option("--apply", help="Write the new variant into params.yaml and make it.")] = False,
) -> None:
    """Find the layers that lose most, and propose the variant with these in 16 bits.

    By default a tenth of the bytes that quantizing saved is given back.
    """
    from rich.console import Console

    from pipeline import checkpoint, params, params_text, store
    from pipeline import rescue as rescuing
    from pipeline.errors import UserError
    from pipeline.report import freshness
    from pipeline.report.analysis import analyse

    settings = params.load()
    rescuing.require_entry(settings, variant)
    if stale := [*freshness.param_problems(settings), *freshness.eval_set_problems(settings)]:
        raise UserError(stale)
    rescuing.require_need(next(row for row in analyse(settings).decision.variants if row.variant == variant))
    ours, theirs = (checkpoint.read_manifest(store.artifact(name)) for name in (variant, settings.baseline))
    budget = rescuing.budget_bytes(ours, theirs, extra_mib, max_size_ratio)
    proposal = rescuing.propose(settings, variant, budget, tokens)
    Console().print(table(proposal))
    entry = rescuing.entry(params.read(store.PARAMS), variant, proposal)
    for line in (*summary(proposal, ours, theirs), "", "variants:"):
        typer.echo(line)
    typer.echo(params_text.variant_text(rescuing.rescued(variant), entry))
    if not apply:
        typer.echo("with --apply it is written into params.yaml, made and measured")
        return
    rescuing.apply(variant, entry)
    typer.echo(f"params.yaml: wrote variant {rescuing.rescued(variant)}")
    if code := rescuing.reproduce():
        raise typer.Exit(code)
    for line in place(rescuing.rescued(variant)):
        typer.echo(line)


def table(proposal: Proposal) -> Table:
    """The parts that lose most, and which of them are kept."""
    from rich.table import Table

    from pipeline.rescue import group_name

    measured = proposal.sensitivity
    found = Table("Part", title=f"What each part loses alone, on {measured.positions} tokens", title_justify="left")
    for title in ("KLD, nats", "MiB more in 16 bits", "Kept"):
        found.add_column(title, justify="right")
    for group in sorted(measured.groups, key=lambda group: -group.kld)[:SHOWN]:
        kept = "yes" if group in proposal.kept else ""
        found.add_row(group_name(group.modules), f"{group.kld:.3g}", f"{group.extra_bytes / 2**20:.2f}", kept)
    if len(measured.groups) > SHOWN:
        found.caption = f"and {len(measured.groups) - SHOWN} parts that lose less"
    return found


def summary(proposal: Proposal, variant: Manifest, baseline: Manifest) -> Iterator[str]:
    """What keeping the proposed parts is expected to win, and what it costs."""
    measured, kept = proposal.sensitivity, proposal.kept
    extra = sum(group.extra_bytes for group in kept)
    size = variant.weight_bytes + extra
    modules = sum(len(group.modules) for group in kept)
    yield (
        f"kept in 16 bits: {modules} modules in {len(kept)} of {len(measured.groups)} parts, "
        f"{extra / 2**20:.1f} of {proposal.budget_bytes / 2**20:.1f} MiB"
    )
    yield (
        f"weights on disk: {variant.weight_bytes / 2**20:.1f} → about {size / 2**20:.1f} MiB "
        f"({variant.weight_bytes / baseline.weight_bytes:.2f} → {size / baseline.weight_bytes:.2f} × {baseline.name}'s)"
    )
    yield (
        f"KLD: {measured.kld:.3g} nats as it runs now; {proposal.kld_none_kept:.3g} → {proposal.kld_kept:.3g} when the "
        "other parts stay as they are, before they are calibrated anew"
    )


def place(variant: str) -> Iterator[str]:
    """Where the new variant stands, by the records that were made."""
    from pipeline import params
    from pipeline.report.analysis import analyse

    analysis = analyse(params.load())
    row, decided = next(pair for pair in analysis.decided() if pair[0].variant == variant)
    dominated = f"dominated by {', '.join(row.dominated_by)}"
    frontier = (
        "on the frontier" if row.on_frontier else dominated if row.dominated_by else "not placed, a value is missing"
    )
    yield f"{variant}: {decided.verdict.value}, {frontier}"
    yield f"  {decided.why}"
    yield analysis.decision.headline
