"""What can be told of wanted toolchains in seconds, before any work."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline import toolchains
from pipeline.errors import UserError
from pipeline.toolchains import Toolchain, environments

GIB = 2**30


def problems(pins: Iterable[str | None]) -> list[str]:
    """Why environments of these `TOOLCHAIN`s cannot be made: no such toolchain or lock, no Python, no room."""
    found: list[str] = []
    absent: list[Toolchain] = []
    for pin in _distinct(pins):
        try:
            toolchain = toolchains.pinned(pin)
            if environments.installed(toolchain) is None:
                environments.find_python(toolchain)
                absent.append(toolchain)
        except UserError as error:
            found += error.problems
    return [*found, *_disk_problems(absent)]


def notes(pins: Iterable[str | None]) -> list[str]:
    """What the first run will do first; for pins without `problems`."""
    found = []
    for toolchain in map(toolchains.pinned, _distinct(pins)):
        if environments.installed(toolchain) is None:
            size = toolchain.description
            found.append(
                f"toolchain {toolchain.name} is not installed: the first run that needs it makes it, about "
                f"{size.download_gib:g} GiB to download and {size.disk_gib:g} GiB on disk; "
                f"`quantgate toolchain install {toolchain.name}` does so now"
            )
    return found


def _distinct(pins: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(pin for pin in pins if pin is not None))


def _disk_problems(absent: list[Toolchain]) -> Iterator[str]:
    if not absent:
        return
    needed = sum(toolchain.description.disk_gib for toolchain in absent)
    root = environments.root()
    free = shutil.disk_usage(_existing(root)).free / GIB
    if needed > free:
        names = ", ".join(toolchain.name for toolchain in absent)
        yield (
            f"disk: toolchains that are not installed yet ({names}) need about {needed:.1f} GiB, but only {free:.1f} "
            f"GiB are free in {root}; make room, or set QUANTGATE_CACHE to a folder elsewhere"
        )


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
