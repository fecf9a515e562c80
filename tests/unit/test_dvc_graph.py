"""dvc.yaml against the code: DVC cannot see Python imports, so each stage's deps must list what its worker imports."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline import params, plugins

ROOT = Path(__file__).resolve().parents[2]
SCORERS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "pipeline" / "scorers").glob("*.py"))
"""All of them count: some are loaded by their path, as Hugging Face evaluate and the sandbox want it."""
STAGES: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
WORK = {
    "base": ["pipeline/runs/base.py", *(f"pipeline/sources/{name}.py" for name in plugins.names("pipeline.sources"))],
    "prompts": ["pipeline/runs/prompts.py", *SCORERS],
    "quantize": ["pipeline/runs/quantize.py"],
    "reference": ["pipeline/runs/reference.py", *SCORERS],
    "smoke": ["pipeline/runs/smoke.py", *SCORERS],
    "benchmark": ["pipeline/runs/benchmark.py", "pipeline/runs/measure.py"],
    # aggregate.py is loaded by its path, as Hugging Face evaluate wants it.
    "evaluate": ["pipeline/runs/evaluate.py", "pipeline/metrics/aggregate.py", *SCORERS],
    # A model whose engine has a toolchain is read by a process of its own.
    "fidelity": ["pipeline/runs/fidelity.py", "pipeline/runs/measure.py"],
    "report": ["pipeline/stages/report.py"],
}
"""What runs in each stage's worker process, before imports are followed. The supervising side (stages/<name>.py,
params.py, supervise.py) only passes params on, and DVC tracks those by value."""


def module_file(dotted: str) -> str | None:
    path = Path(*dotted.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if (ROOT / candidate).is_file():
            return candidate.as_posix()
    return None


@cache
def imported(file: str) -> frozenset[str]:
    """Files of this package that a file imports, wherever in it, and the `__init__` of each package on the way."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            if parts[0] == "pipeline":
                prefixes = (".".join(parts[:n]) for n in range(2, len(parts) + 1))
                found |= {path for prefix in prefixes if (path := module_file(prefix))}
    return frozenset(found)


def closure(files: list[str]) -> set[str]:
    seen: set[str] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting.extend(imported(file))
    # An empty __init__ decides nothing.
    return {file for file in seen if (ROOT / file).read_text(encoding="utf-8").strip()}


def body(stage: str) -> dict[str, Any]:
    return dict(STAGES[stage].get("do", STAGES[stage]))


def declared(stage: str) -> set[str]:
    """Code files that a stage's deps cover; a folder covers all in it, a template all that it can name."""
    files: set[str] = set()
    for dep in body(stage)["deps"]:
        for variable, package in (("${item.quantizer}", "quantizers"), ("${item.engine}", "engines")):
            if variable in dep:
                files |= {dep.replace(variable, name) for name in plugins.names(f"pipeline.{package}")}
                break
        else:
            path = ROOT / dep
            if dep.startswith("pipeline"):
                files |= {p.relative_to(ROOT).as_posix() for p in path.rglob("*.py")} if path.is_dir() else {dep}
    return {file for file in files if (ROOT / file).read_text(encoding="utf-8").strip()}


def plugin_files(stage: str) -> list[str]:
    measuring = ("reference", "smoke", "benchmark", "evaluate", "fidelity")
    packages = {"quantize": "quantizers", **dict.fromkeys(measuring, "engines")}
    if stage not in packages:
        return []
    package = packages[stage]
    return [f"pipeline/{package}/{name}.py" for name in plugins.names(f"pipeline.{package}")]


@pytest.mark.parametrize("stage", WORK)
def test_declared_code_deps_equal_the_real_imports(stage: str) -> None:
    assert declared(stage) == closure([*WORK[stage], *plugin_files(stage)])


def test_every_stage_that_works_is_covered() -> None:
    always = {"environment", "source"}
    assert set(STAGES) == {*WORK, *always}
    assert {name for name in STAGES if STAGES[name].get("always_changed")} == always


@pytest.mark.parametrize("stage", WORK)
def test_tracked_params_stand_in_params_yaml(stage: str) -> None:
    raw = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    for tracked in body(stage).get("params", []):
        value: Any = raw
        for key in (
            tracked.replace("${key}", "fp16")
            .replace("${item.variant}", "fp16")
            .replace("${baseline}", "fp16")
            .split(".")
        ):
            value = value[key]


def test_commands_hold_no_tunables() -> None:
    """`cmd` is part of a stage's signature: a tunable in it would be a second place for a param."""
    for name in STAGES:
        words = body(name)["cmd"].split()
        assert words[:3] == ["python", "-m", f"pipeline.stages.{name}"]
        assert all(word in {"${key}", "${item.variant}", "${item.eval_set}"} for word in words[3:])


def test_nothing_heavy_is_kept_in_git() -> None:
    """The HTML report is large, and all of it follows from the records."""
    for name in STAGES:
        for out in body(name)["outs"]:
            path, cached = (out, True) if isinstance(out, str) else next((k, v["cache"]) for k, v in out.items())
            assert cached == (path.startswith("artifacts/") or path == "reports/report.html")


def test_what_the_default_run_keeps_in_git_is_small() -> None:
    """Of each file, and of all together; the HTML report is not in Git."""
    largest, all_together, html = 512 * 1024, 4 * 1024**2, 6 * 1024**2
    sizes = {path: path.stat().st_size for path in (ROOT / "reports").rglob("*") if path.is_file()}
    page = ROOT / "reports" / "report.html"
    assert sizes.pop(page, 0) <= html
    assert {path.name: size for path, size in sizes.items() if size > largest} == {}
    assert sum(sizes.values()) <= all_together
    assert "/reports/report.html" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_the_shipped_params_are_valid() -> None:
    assert params.load(ROOT / "params.yaml").baseline == "fp16"
