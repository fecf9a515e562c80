"""The toolchains of this package: their locks fit what they ask for, and what names them names the lock as it is."""

from __future__ import annotations

import re
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from unit.test_dvc_graph import ROOT, SCORERS, closure
from unit.test_imports import imported

from pipeline import plugins, toolchains
from pipeline.toolchains.locking import OF_CUDA

PACKAGES = ("pipeline.quantizers", "pipeline.engines")
PLUGINS = [(package, name) for package in PACKAGES for name in plugins.names(package)]
QUANTIZER = ["pipeline/worker.py", "pipeline/runs/quantize.py"]
ENGINE = [
    "pipeline/runs/measure.py",
    "pipeline/runs/evaluate.py",
    "pipeline/runs/smoke.py",
    "pipeline/runs/reference.py",
    "pipeline/metrics/aggregate.py",
    *SCORERS,
]
NEEDS = {"quantizer.in": QUANTIZER, "engine.in": [*QUANTIZER, *ENGINE]}
"""What runs in a toolchain; engine.in includes quantizer.in."""


def requirements(path: Path) -> list[Requirement]:
    """What a requirements file asks for, with what it includes."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.partition(" #")[0].strip()
        if words.startswith("-r "):
            found += requirements(path.parent / words[3:])
        elif words and not words.startswith("#"):
            found.append(Requirement(words))
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize(("package", "name"), PLUGINS)
def test_each_pin_is_that_of_the_lock_as_it_is(package: str, name: str) -> None:
    pin = plugins.load(package, name).TOOLCHAIN
    assert pin is None or pin == toolchains.load(pin.partition("@")[0]).pin


@pytest.mark.parametrize("name", toolchains.names())
def test_each_toolchain_is_named_by_someone(name: str) -> None:
    pins = [plugins.load(*plugin).TOOLCHAIN or "" for plugin in PLUGINS]
    assert name in {pin.partition("@")[0] for pin in pins}


@pytest.mark.parametrize("name", toolchains.names())
def test_each_lock_holds_every_requirement_in_a_version_that_fits(name: str) -> None:
    toolchain = toolchains.load(name)
    locked = {normal(lock.name): lock for lock in requirements(toolchain.lock)}
    asked = requirements(toolchain.requirements)
    assert len(asked) > 1
    for wanted in asked:
        assert wanted.marker is None or wanted.marker.evaluate(), "conditions are not understood here"
        [version] = locked[normal(wanted.name)].specifier
        assert version.operator == "=="
        assert wanted.specifier.contains(version.version, prereleases=True), wanted
    named = {normal(wanted.name) for wanted in asked}
    of_cuda = {name for name, lock in locked.items() if OF_CUDA.match(str(lock))}
    assert of_cuda <= named, "they come with torch's CUDA build"


@pytest.mark.parametrize("name", toolchains.names())
def test_each_toolchain_has_what_a_worker_of_its_plugins_needs(name: str) -> None:
    kinds = {
        package.removeprefix("pipeline.")[:-1]
        for package, plugin in PLUGINS
        if (plugins.load(package, plugin).TOOLCHAIN or "").startswith(f"{name}@")
    }
    needed = {normal(wanted.name) for kind in kinds for wanted in requirements(toolchains.FOLDER / f"{kind}.in")}
    assert needed <= {normal(wanted.name) for wanted in requirements(toolchains.load(name).requirements)}


@pytest.mark.parametrize("file", NEEDS)
def test_what_a_worker_needs_is_what_its_code_imports(file: str) -> None:
    distributions = packages_distributions()
    plugin = ("pipeline/quantizers/", "pipeline/engines/")
    names = {
        name.partition(".")[0]
        for path in closure(NEEDS[file])
        if not path.startswith(plugin)
        for name in imported(ROOT / path)
    }
    third_party = {normal(distributions[name][0]) for name in names if name in distributions and name != "pipeline"}
    asked = {normal(wanted.name) for wanted in requirements(toolchains.FOLDER / file)}
    assert asked == third_party
