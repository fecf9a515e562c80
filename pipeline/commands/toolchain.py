"""`quantgate toolchain`: list, install, remove and lock the environments apart from the main one."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="Environments of quantizers and engines that cannot share the main one.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Folder in pipeline/toolchains.")]


@app.command("list")
def list_() -> None:
    """Print every toolchain: what it is for, what it takes, and whether it is installed."""
    from pipeline import toolchains
    from pipeline.toolchains import environments

    for toolchain in map(toolchains.load, toolchains.names()):
        about, found = toolchain.description, environments.installed(toolchain)
        typer.echo(f"{toolchain.name}: {about.purpose}")
        typer.echo(f"  Python {', '.join(about.python)}; download about {about.download_gib:g} GiB")
        if found:
            typer.echo(f"  installed: {environments.disk_bytes(found) / 2**30:.1f} GiB in {found}")
        else:
            typer.echo(f"  not installed: takes about {about.disk_gib:g} GiB on disk")


@app.command()
def install(name: Name) -> None:
    """Make the environment now, while online."""
    from pipeline import toolchains
    from pipeline.toolchains import environments

    typer.echo(environments.install(toolchains.load(name)))


@app.command()
def remove(name: Name) -> None:
    """Delete its environments, those of earlier locks included; the next run that needs one makes it anew."""
    from pipeline.toolchains import environments

    removed = environments.remove(name)
    for folder in removed:
        typer.echo(f"removed {folder}")
    if not removed:
        typer.echo(f"{name} is not installed")


@app.command()
def lock(name: Name) -> None:
    """Resolve requirements.in into requirements.lock, and write its pin into the files that name the toolchain."""
    from pipeline import toolchains
    from pipeline.toolchains import locking

    changed = locking.lock(name)
    for path in changed:
        typer.echo(f"wrote {path}")
    if not changed:
        typer.echo("nothing changed")
    typer.echo(f'a quantizer or engine names it as TOOLCHAIN = "{toolchains.load(name).pin}"')
