"""Heavy packages are imported where they are used; nothing imports a stage."""

from __future__ import annotations

import ast
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

import pipeline
from pipeline import plugins, toolchains

PACKAGE = Path(pipeline.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
HEAVY = (
    "torch",
    "transformers",
    "datasets",
    "evaluate",
    "gptqmodel",
    "bitsandbytes",
    "accelerate",
    "optimum",
    "nltk",
    "sacrebleu",
)
TOOLCHAIN_MODULES = {name: toolchains.load(name).description.modules for name in toolchains.names()}
"""What is in a toolchain only."""
IMPORTS_HEAVY = {"pipeline.metrics.aggregate", "pipeline.scorers.chrf_metric", "pipeline.scorers.rouge_l_metric"}
"""The metric files that `evaluate.load` reads: they are never imported as modules."""


def module_name(path: Path) -> str:
    parts = ("pipeline", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def imported(path: Path) -> set[str]:
    """Every module that a file names in an import anywhere, with each name taken from a package as a module too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_importing_everything_imports_nothing_heavy() -> None:
    modules = [name for name in map(module_name, FILES) if name not in IMPORTS_HEAVY]
    assert len(modules) > 40
    heavy = [*HEAVY, *chain.from_iterable(TOOLCHAIN_MODULES.values())]
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        f"    for heavy in {heavy!r}:\n"
        "        assert heavy not in sys.modules, f'{name} imports {heavy}'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr


def runs_in(path: Path, toolchain: str) -> bool:
    """Whether a file is a quantizer or engine of this toolchain, or a helper beside them that they alone import."""
    folder, name = path.parent.name, path.stem
    if path.parent not in (PACKAGE / "quantizers", PACKAGE / "engines"):
        return False
    if name in plugins.names(f"pipeline.{folder}"):
        pin = plugins.load(f"pipeline.{folder}", name).TOOLCHAIN
        return pin is not None and pin.partition("@")[0] == toolchain
    users = [other for other in FILES if module_name(path) in imported(other)]
    return name.startswith("_") and bool(users) and all(runs_in(user, toolchain) for user in users)


@pytest.mark.parametrize("toolchain", TOOLCHAIN_MODULES)
def test_only_what_runs_in_a_toolchain_imports_what_is_in_it_alone(toolchain: str) -> None:
    modules = TOOLCHAIN_MODULES[toolchain]
    users = [path for path in FILES if any(is_in(name, module) for name in imported(path) for module in modules)]
    assert users
    assert [path.name for path in users if not runs_in(path, toolchain)] == []


def test_nothing_imports_the_metric_files_that_evaluate_reads() -> None:
    guilty = [path.name for path in FILES if imported(path) & IMPORTS_HEAVY]
    assert guilty == []


def test_nothing_imports_a_stage() -> None:
    shared = {"pipeline.stages", "pipeline.stages._main", "pipeline.stages._main.run"}
    for path in FILES:
        names = {name for name in imported(path) if is_in(name, "pipeline.stages")}
        assert names <= (shared if path.parent == PACKAGE / "stages" else set()), path


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("metrics", ("runs", "engines", "quantizers", "report", "supervise", "cli")),
        ("scorers", ("runs", "engines", "quantizers", "report", "metrics", "probes", "supervise", "cli")),
        ("probes", ("runs", "engines", "quantizers", "report", "metrics", "scorers", "supervise", "cli")),
        ("engines", ("runs", "quantizers", "report", "metrics", "scorers", "supervise", "cli")),
        ("quantizers", ("runs", "engines", "report", "metrics", "scorers", "supervise", "cli")),
        ("report", ("runs", "engines", "quantizers", "probes", "scorers", "supervise", "cli", "diff")),
        ("diff", ("runs", "engines", "quantizers", "probes", "scorers", "supervise", "cli")),
    ],
)
def test_dependencies_point_one_way(folder: str, forbidden: tuple[str, ...]) -> None:
    for path in (PACKAGE / folder).rglob("*.py"):
        wrong = {name for name in imported(path) for other in forbidden if is_in(name, f"pipeline.{other}")}
        assert wrong == set(), path


@pytest.mark.parametrize("folder", ["engines", "quantizers", "sources"])
def test_plugins_of_one_folder_do_not_import_each_other(folder: str) -> None:
    package = f"pipeline.{folder}"
    for path in (PACKAGE / folder).glob("[a-z]*.py"):
        others = {
            f"{package}.{other.stem}" for other in (PACKAGE / folder).glob("[a-z]*.py") if other.stem != path.stem
        }
        wrong = {name for name in imported(path) for other in others if is_in(name, other)}
        assert wrong == set(), path
