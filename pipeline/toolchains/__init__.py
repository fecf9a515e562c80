"""Python environments apart from the main one, for quantizers and engines whose packages conflict with its packages.

A toolchain is a folder here with three files:

- `toolchain.yaml`: what it is for and what it takes; see `Description`.
- `requirements.in`: the packages that its quantizers or engines need, and what a worker itself needs
  (`-r ../quantizer.in` or `-r ../engine.in`).
- `requirements.lock`: every package with its version, written by `quantgate toolchain lock NAME`.

A quantizer or engine names it as `TOOLCHAIN = "NAME@LOCK"`, where LOCK stands for one state of the lock.
`environments` makes the environment, `locking` the lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from pipeline import store
from pipeline.errors import UserError, nearest
from pipeline.yaml_files import read_yaml, section_problems

FOLDER = Path(__file__).parent
LOCK_DIGITS = 12


class Description(BaseModel):
    """What stands in a toolchain.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    purpose: str
    """What it is for, in one line."""
    python: list[Annotated[str, Field(pattern=r"^3\.(1[1-9]|[2-9]\d)$")]] = Field(min_length=1)
    """Versions that will do, such as "3.11", in quotes; the lock is made for the first. This package needs 3.11."""
    download_gib: float = Field(gt=0)
    """About."""
    disk_gib: float = Field(gt=0)
    """About."""
    modules: list[str]
    """What is imported from it and is not in the main environment; the main environment's code must not import it."""


@dataclass(frozen=True)
class Toolchain:
    name: str
    description: Description

    @property
    def requirements(self) -> Path:
        return FOLDER / self.name / "requirements.in"

    @property
    def lock(self) -> Path:
        return FOLDER / self.name / "requirements.lock"

    @property
    def pin(self) -> str:
        """`NAME@LOCK` of the lock as it is now; raises UserError where there is none."""
        if not self.lock.is_file():
            raise UserError(f"{self.lock}: missing; `quantgate toolchain lock {self.name}` writes it")
        return f"{self.name}@{store.sha256_file(self.lock)[:LOCK_DIGITS]}"


def names() -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob("*/toolchain.yaml"))


def load(name: str) -> Toolchain:
    """Raises UserError when there is no such toolchain, or with every mistake in its toolchain.yaml."""
    known = names()
    if name not in known:
        raise UserError(f"no toolchain {name!r}; {nearest(name, known)}")
    path = FOLDER / name / "toolchain.yaml"
    raw = read_yaml(path)
    problems = [f"{path}: {problem}" for problem in section_problems(Description, raw)]
    if problems:
        raise UserError(problems)
    return Toolchain(name, Description.model_validate(raw))


def pinned(pin: str) -> Toolchain:
    """The toolchain that a `TOOLCHAIN` names.

    Raises:
        UserError: as `load`, or its lock is another than the one that is named.
    """
    toolchain = load(pin.partition("@")[0])
    if pin != toolchain.pin:
        raise UserError(
            f"TOOLCHAIN {pin!r}: the lock is another one, {toolchain.pin!r}; "
            f"`quantgate toolchain lock {toolchain.name}` renews both"
        )
    return toolchain
