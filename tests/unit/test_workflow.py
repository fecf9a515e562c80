"""The CI workflow that comes along: its commands exist, its scripts are sound shell, and the gate fails the job."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from pipeline import cli
from pipeline.report import markdown

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW: dict[str, Any] = yaml.load(
    (ROOT / ".github" / "workflows" / "quantgate.yml").read_text(encoding="utf-8"), yaml.BaseLoader
)
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["gate"]["steps"]
SCRIPTS = {step["name"]: step["run"] for step in STEPS if "run" in step}


def commands(program: str) -> list[list[str]]:
    """Words of each call of a program in the scripts, up to where the shell takes over."""
    found = []
    for script in SCRIPTS.values():
        for call in re.findall(rf"(?:^|[;|&]\s*|\s){program} ([^\n|>&]*)", script):
            found.append(shlex.split(call))
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_sound_shell(name):
    done = subprocess.run(["bash", "-n"], input=SCRIPTS[name], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_quantgate_command_and_option_exists():
    program = get_command(cli.app)
    called = [call for call in commands("quantgate") if call[0] in ("check", "gate", "diff")]
    assert {call[0] for call in called} == {"check", "gate", "diff"}
    for name, *words in called:
        options = {option for option in program.commands[name].params for option in option.opts}
        assert {word for word in words if word.startswith("-")} <= options


def test_every_dvc_command_and_option_exists():
    from dvc.cli.parser import get_main_parser

    called = commands("dvc")
    assert [call[0] for call in called] == ["pull", "repro", "repro"]
    for call in called:
        get_main_parser().parse_args(call)
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert called[-1] == ["repro", "--single-item", "report"]
    assert "report" in stages


def test_make_s_target_installs_from_the_lock():
    assert re.search(r"^install:.*\n\t@\$\(PYTHON\) scripts/install.py", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "requirements.lock" in (ROOT / "scripts" / "install.py").read_text(encoding="utf-8")


def test_the_files_that_it_hands_on_are_the_report_s():
    outs = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]["report"]["outs"]
    names = {out if isinstance(out, str) else next(iter(out)) for out in outs}
    named = set(re.findall(r"reports/[a-z.]+[a-z]", (ROOT / ".github" / "workflows" / "quantgate.yml").read_text()))
    assert {"reports/report.html", "reports/report.md", "reports/report.svg"} <= named <= names


@pytest.mark.parametrize(
    ("code", "on_undecided", "expected"),
    [("0", "fail", 0), ("1", "pass", 1), ("2", "fail", 1), ("2", "pass", 0), ("3", "pass", 1), ("", "pass", 1)],
)
def test_the_gate_decides_the_job(code, on_undecided, expected):
    environment = {**os.environ, "CODE": code, "ON_UNDECIDED": on_undecided}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", SCRIPTS["Fail on the gate"]],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == expected


def write_comment(tmp_path: Path, measured: str, gate: str = "PASS: int8\n") -> str:
    """With a `quantgate` that stands in for the real one."""
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "report.md").write_text(f"# Ship int8.\n\n![Quality]({markdown.PLOT})\n")
    (tmp_path / "gate.txt").write_text(gate)
    stub = tmp_path / "bin" / "quantgate"
    stub.parent.mkdir()
    stub.write_text('#!/bin/sh\necho "called: $*"\n')
    stub.chmod(0o755)
    environment = {
        "PATH": f"{stub.parent}:{os.environ['PATH']}",
        "GITHUB_SERVER_URL": "https://git.example",
        "GITHUB_REPOSITORY": "team/models",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "BASE_SHA": "aaa",
        "HEAD_SHA": "bbb",
        "MEASURE": measured,
    }
    command = ["bash", "-e", "-o", "pipefail", "-c", SCRIPTS["Write the comment"]]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    comment = (tmp_path / "comment.md").read_text()
    assert (tmp_path / "summary.md").read_text() == comment
    return comment


def test_the_comment_shows_the_picture_of_its_commit_and_is_found_again(tmp_path):
    comment = write_comment(tmp_path, measured="false")
    assert comment.startswith("# Ship int8.\n")
    assert "![Quality](https://git.example/team/models/blob/bbb/reports/report.svg?raw=true)" in comment
    assert "called: diff aaa . --markdown" in comment
    assert comment.rstrip().endswith("<!-- quantgate -->")
    assert '"<!-- quantgate -->"' in SCRIPTS["Post one comment, or renew it"]


def test_what_was_measured_in_the_job_has_no_picture_in_git(tmp_path):
    assert "report.svg" not in write_comment(tmp_path, measured="true")


def test_a_comment_fits_into_the_limit_whatever_it_holds(tmp_path):
    comment = write_comment(tmp_path, measured="false", gate="x" + "é" * 200_000)
    assert len(comment) < 65_536
    assert comment.rstrip().endswith("<!-- quantgate -->")


def test_a_fork_s_code_runs_on_no_machine_of_ours():
    job = WORKFLOW["jobs"]["gate"]
    ours = "github.event.pull_request.head.repo.full_name == github.repository && vars."
    assert f"{ours}QUANTGATE_RUNNER" in job["runs-on"]
    assert f"{ours}QUANTGATE_MEASURE" in job["env"]["MEASURE"]


def test_why_the_gate_refused_to_judge_stands_in_the_comment() -> None:
    """An error is told on stderr."""
    assert "quantgate gate > gate.txt 2>&1" in (ROOT / ".github/workflows/quantgate.yml").read_text(encoding="utf-8")
