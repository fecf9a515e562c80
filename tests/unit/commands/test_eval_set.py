from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.workspace import ITEMS, eval_set

from pipeline import cli

GOOD = [item | {"id": f"{item['category']}-001"} for item in ITEMS]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").touch()
    power = SimpleNamespace(items_needed=lambda margin, discordant: 1 / margin)
    monkeypatch.setitem(sys.modules, "pipeline.metrics.power", power)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit code of the command as a shell sees it."""
    monkeypatch.setattr(sys, "argv", ["quantgate", "eval-set", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


def test_a_new_set_is_written_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "new", "my-set") == 0
    assert Path("eval_sets/my-set/items.jsonl").is_file()
    assert "quantgate eval-set check my-set" in capsys.readouterr().out
    assert run(monkeypatch, "new", "my-set") == 3
    assert capsys.readouterr().err == (
        "error: eval_sets/my-set is there already; choose another name, or remove it first\n"
    )


def test_outside_a_project_nothing_is_written(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "params.yaml").unlink()
    (workspace / "a.csv").write_text("prompt,answer\nSky?,blue\n")
    calls = (("new", "my-set"), ("check", "my-set"), ("import", "a.csv", "my-set", "--format", "csv"))
    for arguments in calls:
        assert run(monkeypatch, *arguments) == 3
        assert capsys.readouterr().err == (
            "error: params.yaml: not found. Run this in the folder that holds it, where eval_sets/ belongs.\n"
        )
    assert [path.name for path in workspace.iterdir()] == ["a.csv"]


def test_warnings_leave_the_exit_code_0_and_stand_apart_from_errors(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    eval_set(workspace, GOOD)
    assert run(monkeypatch, "check", "colours", "--margin", "0.25") == 0
    assert capsys.readouterr().out.endswith("\nnothing to mend\n")
    assert run(monkeypatch, "check", "colours", "--margin", "0.1") == 0
    told = capsys.readouterr()
    assert told.out.startswith("warning: 4 items: to rule out a loss of 10.0%")
    assert told.err == ""
    eval_set(workspace, [*GOOD, GOOD[0] | {"id": "pick-002"}])
    assert run(monkeypatch, "check", "colours", "--margin", "0.1") == 3
    told = capsys.readouterr()
    assert told.err == "error: items pick-001, pick-002 ask the same; keep one\n"
    assert told.out.startswith("warning: 5 items")


def test_a_calibration_set_can_be_named(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    eval_set(workspace, GOOD)
    assert run(monkeypatch, "check", "colours", "--calibration", "plane") == 3
    told = capsys.readouterr()
    assert told.err == "error: --calibration: calibration/plane: no such calibration set (there are: none)\n"
    assert "mend these first" not in told.out


def test_a_file_is_imported(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "a.csv").write_text("q,answer\nSky?,blue\n")
    arguments = ("import", "a.csv", "mine", "--format", "csv", "--prompt-field", "q", "--scorer", "contains_any")
    assert run(monkeypatch, *arguments, "--language", "en", "--licence", "MIT", "--max-new-tokens", "9") == 0
    card = (workspace / "eval_sets/mine/card.yaml").read_text()
    assert "contains_any" in card
    assert "max_new_tokens: 9" in card
    assert "quantgate eval-set check mine" in capsys.readouterr().out


def test_a_hub_data_set_without_a_commit_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "import", "hub:org/bank", "mine", "--split", "test", "--revision", "main") == 3
    assert "--revision: needs a commit" in capsys.readouterr().err


def test_the_help_reads_no_eval_set_code() -> None:
    """What `--help` imports is what it waits for."""
    code = (
        "import sys; from pipeline import cli\n"
        "slow = ('pipeline.eval_sets', 'pipeline.scorers', 'pydantic', 'yaml')\n"
        "print([name for name in sys.modules if name.startswith(slow)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
