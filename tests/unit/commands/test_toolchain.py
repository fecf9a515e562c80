from __future__ import annotations

import sys
from pathlib import Path

import pytest
from unit.toolchains.conftest import Make, cache, make  # noqa: F401 - fixtures
from unit.toolchains.test_environments import Steps, steps  # noqa: F401 - a fixture

from pipeline import cli
from pipeline.toolchains import environments, locking


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit code of the command as a shell sees it."""
    monkeypatch.setattr(sys, "argv", ["quantgate", "toolchain", *arguments])
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


@pytest.fixture(autouse=True)
def workspace(make: Make, steps: Steps) -> None:  # noqa: F811
    make(purpose="a tiny one")
    make("huge", python=["3.99"], disk_gib=50)


def test_the_list_tells_size_and_whether_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    this = environments.THIS_VERSION
    assert run(monkeypatch, "list") == 0
    assert capsys.readouterr().out.splitlines() == [
        "huge: for tests",
        "  Python 3.99; download about 0.1 GiB",
        "  not installed: takes about 50 GiB on disk",
        "tiny: a tiny one",
        f"  Python {this}; download about 0.1 GiB",
        "  not installed: takes about 0.2 GiB on disk",
    ]
    assert run(monkeypatch, "install", "tiny") == 0
    python = Path(capsys.readouterr().out.splitlines()[-1])
    assert run(monkeypatch, "list") == 0
    assert capsys.readouterr().out.endswith(f"\n  installed: 0.0 GiB in {python.parents[1]}\n")
    assert run(monkeypatch, "remove", "tiny") == 0
    assert capsys.readouterr().out == f"removed {python.parents[1]}\n"
    assert run(monkeypatch, "remove", "tiny") == 0
    assert capsys.readouterr().out == "tiny is not installed\n"


@pytest.mark.parametrize("command", ["install", "lock", "remove"])
def test_an_unknown_name_is_a_users_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(monkeypatch, command, "tidy") == 3
    assert capsys.readouterr().err == "error: no toolchain 'tidy'; did you mean 'tiny'?\n"


def test_without_a_fitting_python_nothing_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "install", "huge") == 3
    assert capsys.readouterr().err.startswith("error: toolchain huge: needs Python 3.99")


@pytest.mark.parametrize(
    ("changed", "told"), [([Path("a"), Path("b")], ["wrote a", "wrote b"]), ([], ["nothing changed"])]
)
def test_locking_tells_what_it_wrote_and_the_pin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], changed: list[Path], told: list[str]
) -> None:
    monkeypatch.setattr(locking, "lock", lambda name: changed)
    assert run(monkeypatch, "lock", "tiny") == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == told
    assert last == 'a quantizer or engine names it as TOOLCHAIN = "tiny@e3b0c44298fc"'
