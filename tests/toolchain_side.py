"""The other environment of an end-to-end test: its interpreter, and commands run under it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tiny_project import ROOT

from pipeline import processes, toolchains
from pipeline.toolchains import environments


def interpreter(pin: str) -> Path:
    """Of the toolchain that a `TOOLCHAIN` names. Skips the test where it is not installed and not to be made."""
    toolchain = toolchains.pinned(pin)
    if os.environ.get("QUANTGATE_TEST_TOOLCHAINS") == "1":
        return environments.install(toolchain)
    found = environments.installed(toolchain)
    if found is None:
        pytest.skip(f"toolchain {toolchain.name} is not installed; QUANTGATE_TEST_TOOLCHAINS=1 makes it")
    return environments.interpreter(found)


def run(python: Path, folder: Path, *arguments: object, **variables: str) -> str:
    """Run a command of that Python in a project folder, with these environment variables; returns what it prints."""
    environment = {**processes.environment(python, {}), "PYTHONPATH": str(ROOT), **variables}
    command = [str(python), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout
