"""One environment that is really made, with pip, from a wheel of the test's own, and workers that run in it."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import textwrap
from pathlib import Path

import pytest
from pydantic import BaseModel
from unit.toolchains.conftest import DESCRIPTION, wheel

import pipeline
from pipeline import processes, supervise, toolchains
from pipeline.errors import UserError
from pipeline.readings import FailureKind
from pipeline.residents import Finish, Finished, Resident, TurnError
from pipeline.toolchains import Description, Toolchain, environments

SITE_PACKAGES = site.getsitepackages()[0]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with nothing but pip and `tiny_only`."""
    folder = tmp_path_factory.mktemp("real")
    (folder / "toolchains" / "tiny").mkdir(parents=True)
    lock = folder / "toolchains" / "tiny" / "requirements.lock"
    lock.write_text(f"tiny-only @ {wheel(folder, 'tiny-only', requires=('never-installed',)).as_uri()}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolchains, "FOLDER", folder / "toolchains")
        patch.setenv("QUANTGATE_CACHE", str(folder / "cache"))
        # What is installed here must not pass for installed there.
        patch.setenv("PYTHONPATH", SITE_PACKAGES)
        return environments.install(Toolchain("tiny", Description.model_validate(DESCRIPTION)))


@pytest.fixture
def fit(installed: Path, tmp_path: Path) -> Path:
    """A copy of it in which a worker finds pydantic and the like: those of this environment."""
    python = environments.interpreter(shutil.copytree(installed.parents[1], tmp_path / "fit", symlinks=True))
    [packages] = python.parents[1].glob("lib/python*/site-packages")
    (packages / "main.pth").write_text(SITE_PACKAGES)
    return python


def said(python: Path, code: str) -> str:
    """What Python code prints in a worker's surroundings, or the last line of its traceback."""
    environment = processes.environment(python, {})
    done = subprocess.run([str(python), "-c", code], env=environment, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def test_the_locked_packages_are_there_and_nothing_else(installed: Path) -> None:
    assert said(installed, "import tiny_only, sys; print(tiny_only.VERSION, sys.prefix)") == (
        f"1.0 {installed.parents[1]}"
    )
    log = installed.parents[1].with_name(f"{installed.parents[1].name}.log").read_text()
    assert "Successfully installed tiny-only-1.0" in log


def test_a_worker_finds_this_package_and_none_of_this_environment(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where this package is installed among the others, and the project folder holds a module of its own."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "pipeline").symlink_to(Path(pipeline.__file__).parent)
    (tmp_path / "site" / "neighbour.py").touch()
    (tmp_path / "bystander.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", SITE_PACKAGES)
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    monkeypatch.setattr(processes, "PACKAGE", tmp_path / "site" / "pipeline")
    assert said(installed, "import pipeline; print(pipeline.__version__)") == pipeline.__version__
    for absent in ("pydantic", "neighbour", "bystander"):
        assert said(installed, f"import {absent}") == f"ModuleNotFoundError: No module named {absent!r}"


def test_this_interpreter_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "kept")
    found = processes.environment(processes.PYTHON, {"OWN": "1"})
    assert found == {**os.environ, **processes.WORKER_ENVIRONMENT, "OWN": "1"}
    assert found["PYTHONPATH"] == "kept"
    assert "PYTHONSAFEPATH" not in found or os.environ.get("PYTHONSAFEPATH")


# --- workers ---------------------------------------------------------------------------------------------------


class Job(BaseModel):
    variant: str = "a"


def supervised(python: Path, folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """Supervise a run of this body in a package that is this one but for its runs."""
    package = folder / "package" / "pipeline"
    package.mkdir(parents=True)
    for entry in Path(pipeline.__file__).parent.iterdir():
        if entry.name not in ("runs", "__pycache__"):
            (package / entry.name).symlink_to(entry)
    (package / "runs").mkdir()
    head = """\
import os, sys
from pydantic import BaseModel
from pipeline.records import Outcome, Status
import tiny_only

class Job(BaseModel):
    variant: str

def run(job):
"""
    (package / "runs" / "fake.py").write_text(head + textwrap.indent(body, "    "))
    monkeypatch.setattr(processes, "PACKAGE", package)
    log = folder / "log"
    return supervise.run("fake", Job(), title="x", log=log, timeout_s=60, environment={"OWN": "7"}, python=python)


def test_a_worker_runs_in_the_toolchain(fit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        'why = f\'{sys.prefix} {os.environ["OWN"]} {os.environ["HF_HUB_OFFLINE"]} {tiny_only.VERSION}\'\n'
        "return Outcome(variant=job.variant, status=Status.INVALID, reason=why)"
    )
    found = supervised(fit, tmp_path, body, monkeypatch)
    assert isinstance(found, dict)
    assert found["reason"] == f"{fit.parents[1]} 7 1 1.0"


def test_its_death_is_a_failure(fit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = supervised(fit, tmp_path, "print('layer 3', flush=True); os._exit(3)", monkeypatch)
    assert isinstance(found, supervise.Failure)
    assert found.reason.startswith("the worker ended with exit code 3; its last words: layer 3 (log: ")
    assert (tmp_path / "log").read_text() == "layer 3\n"


def test_a_package_that_a_worker_lacks_is_a_failure_that_names_it(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = supervised(installed, tmp_path, "pass", monkeypatch)
    assert isinstance(found, supervise.Failure)
    assert "No module named 'pydantic'" in found.reason


def test_a_resident_runs_in_the_toolchain(installed: Path, fit: Path) -> None:
    bare = Resident({}, installed)
    with pytest.raises(TurnError) as caught:
        bare.ask(Finish(), Finished, 60)
    assert caught.value.kind is FailureKind.WORKER_DIED
    resident = Resident({}, fit)
    try:
        # Its first message must be another one, which it can only tell once it runs.
        with pytest.raises(TurnError) as caught:
            resident.ask(Finish(), Finished, 60)
        executable = Path(f"/proc/{resident.pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    finally:
        resident.close()
    assert executable == str(fit)
    assert caught.value.kind is FailureKind.ERROR


# --- out of reach ----------------------------------------------------------------------------------------------


def test_an_index_that_is_out_of_reach_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "toolchains" / "tiny"
    folder.mkdir(parents=True)
    (folder / "requirements.lock").write_text("tiny-only==1.0\n")
    monkeypatch.setattr(toolchains, "FOLDER", tmp_path / "toolchains")
    monkeypatch.setenv("QUANTGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_RETRIES", "0")
    toolchain = Toolchain("tiny", Description.model_validate(DESCRIPTION))
    with pytest.raises(UserError) as caught:
        environments.install(toolchain)
    told = str(caught.value)
    assert told.startswith(
        "toolchain tiny: installing the packages of requirements.lock failed, the last words were 'ERROR: No matching "
        "distribution found for tiny-only==1.0"
    )
    assert "run `quantgate toolchain install tiny` while online" in told
    assert "QUANTGATE_CACHE" in told
    assert environments.installed(toolchain) is None
