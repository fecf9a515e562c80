"""`quantgate diff`: what changed between two reports."""

from __future__ import annotations

from typing import Annotated

import typer

Before = Annotated[str, typer.Argument(metavar="REV_A", help="The older report: a Git revision or a folder.")]
After = Annotated[str, typer.Argument(metavar="REV_B", help="The newer one; `.` is the working tree.")]


def diff(
    before: Before = "HEAD",
    after: After = ".",
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a pull request.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; its schema is in docs/schema.")] = False,
) -> None:
    """Show what changed in decision, gates, quality, speed, memory, artifacts and params between two reports.

    Differences are no failure: the exit code is 0, or 3 where a side cannot be read.
    """
    from pipeline import store
    from pipeline.diff import compare, places, render, snapshot
    from pipeline.errors import UserError

    if as_markdown and as_json:
        raise UserError("--markdown and --json were both given; choose one")
    with places.opened(before) as a, places.opened(after) as b:
        found = compare.compare(snapshot.read(a), snapshot.read(b))
    if as_json:
        typer.echo(store.to_json(found.model_dump(mode="json")), nl=False)
    elif as_markdown:
        typer.echo(render.markdown(found), nl=False)
    else:
        from rich.console import Console

        Console().print(render.terminal(found))
