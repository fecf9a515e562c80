"""Where a side of a comparison stands: a Git revision, a folder, or the working tree."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline import store
from pipeline.errors import UserError

WORKING_TREE = "."
DECISION = "decision.json"


@dataclass(frozen=True)
class Place:
    given: str
    commit: str | None
    """Of a revision; None for a folder."""
    reports: Path
    params: Path


@contextmanager
def opened(given: str) -> Iterator[Place]:
    """The side's files, for as long as the context lasts: those of a revision stand in a temporary folder.

    Raises:
        UserError: there is no such revision or folder, it holds no report, or the name can mean both.
    """
    folder, commit = Path(given or WORKING_TREE), _commit(given)
    if folder.is_dir() and commit and not _is_path(given):
        raise UserError(
            f"{given!r} is both a folder and a Git revision; write `./{given}` for the folder or the commit "
            f"`{commit[:12]}` for the revision"
        )
    if folder.is_dir():
        yield _in_folder(given or WORKING_TREE, folder)
    elif commit:
        with tempfile.TemporaryDirectory(prefix="quantgate-diff-") as scratch:
            _extract(given, commit, Path(scratch))
            yield Place(given, commit, Path(scratch) / store.REPORTS, Path(scratch) / store.PARAMS)
    elif _git("rev-parse", "--git-dir").returncode:
        raise UserError(
            f"{given!r} is no folder here, and this folder is in no Git repository, so that it cannot be a revision; "
            "run this in the project's folder, or give two folders with reports"
        )
    else:
        raise UserError(
            f"{given!r} is neither a Git revision nor a folder here; give a tag, branch or commit (`git log` lists "
            f"them), a folder with a report, or `{WORKING_TREE}` for the working tree"
        )


def _is_path(given: str) -> bool:
    """Written so that it can only be a path."""
    return given in ("", ".", "..") or given.startswith(("./", "../", "/"))


def _in_folder(given: str, folder: Path) -> Place:
    """A project folder, or its reports folder."""
    reports = folder / store.REPORTS
    if (reports / DECISION).is_file():
        return Place(given, None, reports, folder / store.PARAMS)
    if (folder / DECISION).is_file():
        return Place(given, None, folder, folder.resolve().parent / store.PARAMS)
    raise UserError(f"{given}: holds no report ({reports / DECISION} is missing); run `dvc repro` there to make one")


def _commit(given: str) -> str | None:
    """The commit that a revision names; None where Git knows no such revision."""
    if _is_path(given):
        return None
    done = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{given}^{{commit}}")
    return done.stdout.decode().strip() if done.returncode == 0 else None


def _extract(given: str, commit: str, scratch: Path) -> None:
    """The project's reports and params at that commit; the project may be a folder of the repository."""
    wanted = [store.REPORTS.as_posix(), store.PARAMS.as_posix()]
    there = _git("ls-tree", "--name-only", commit, "--", *wanted).stdout.decode().splitlines()
    if store.REPORTS.as_posix() not in there:
        elsewhere = "" if store.PARAMS.is_file() else f"run this in the folder that holds {store.PARAMS}, or "
        raise UserError(
            f"{given}: commit {commit[:12]} has no folder {store.REPORTS} here; {elsewhere}choose a later one"
        )
    done = _git("archive", "--format=tar", commit, "--", *there)
    if done.returncode:
        raise UserError(f"{given}: git archive failed: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(scratch, filter="data")
    if not (scratch / store.REPORTS / DECISION).is_file():
        raise UserError(
            f"{given}: commit {commit[:12]} has no {store.REPORTS / DECISION}, so no report was committed with it"
        )


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise UserError("git is not installed; install it, or compare two folders with reports") from None
