"""Making environments: where, from which Python, in what order, and what is said when it cannot be done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from unit.toolchains.conftest import Make

from pipeline import processes, store
from pipeline.errors import UserError
from pipeline.toolchains import Toolchain, environments

THIS = environments.THIS_VERSION
OTHER = "3.99"


class Steps:
    """Instead of running commands, notes them; an empty environment is no more than a file named python."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.fails_at: str | None = None
        self.complete_while_running = False

    def __call__(self, making: environments._Making, what: str, command: Sequence[str]) -> None:
        self.commands.append(list(command))
        self.complete_while_running |= environments.is_complete(making._target)
        if "venv" in command:
            environments.interpreter(making._target).parent.mkdir(parents=True)
            environments.interpreter(making._target).touch()
        if self.fails_at and self.fails_at in what:
            raise UserError("failed")

    def said(self) -> list[str]:
        """The end of each command."""
        return [" ".join(command[-3:]) for command in self.commands]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    noted = Steps()
    monkeypatch.setattr(environments._Making, "_do", lambda making, *asked: noted(making, *asked))
    return noted


# --- once ------------------------------------------------------------------------------------------------------


def test_no_toolchain_means_this_interpreter() -> None:
    assert environments.python(None) == Path(sys.executable) == processes.PYTHON


def test_it_is_made_once_and_found_again(
    make: Make, cache: Path, steps: Steps, capsys: pytest.CaptureFixture[str]
) -> None:
    toolchain = make(lock="a==1\n")
    python = environments.python(toolchain.pin)
    [folder] = [path for path in cache.iterdir() if path.is_dir()]
    assert python == folder / "bin" / "python"
    assert len(steps.commands) == 2
    assert steps.commands[0] == [sys.executable, "-m", "venv", str(folder)]
    assert steps.commands[1][:4] == [str(python), "-I", "-m", "pip"]
    assert steps.commands[1][-3:] == ["--no-deps", "--requirement", str(toolchain.lock)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        f"toolchain tiny: making the environment in {folder}, about 0.1 GiB to download and 0.2 GiB on disk"
    )
    assert lines[-1].startswith("toolchain tiny: done in ")
    assert environments.python(toolchain.pin) == python
    assert len(steps.commands) == 2
    assert capsys.readouterr().out == ""


def test_a_pin_of_an_earlier_lock_makes_nothing(make: Make, cache: Path, steps: Steps) -> None:
    pin = make(lock="a==1\n").pin
    make(lock="a==2\n")
    with pytest.raises(UserError, match="the lock is another one"):
        environments.python(pin)
    assert steps.commands == []


@pytest.mark.parametrize("fails_at", ["empty environment", "packages"])
def test_what_was_not_made_to_the_end_is_made_anew(make: Make, cache: Path, steps: Steps, fails_at: str) -> None:
    toolchain = make()
    steps.fails_at = fails_at
    with pytest.raises(UserError):
        environments.install(toolchain)
    assert environments.installed(toolchain) is None
    folder = environments.folder(toolchain, THIS)
    (folder / "left over").touch()
    steps.fails_at = None
    environments.install(toolchain)
    assert environments.installed(toolchain) == folder
    assert not (folder / "left over").exists()
    assert not steps.complete_while_running, "the stamp is written last"


def test_an_environment_whose_python_is_gone_is_made_anew(make: Make, steps: Steps, tmp_path: Path) -> None:
    toolchain = make()
    python = environments.install(toolchain)
    python.unlink()
    python.symlink_to(tmp_path / "uninstalled")
    assert environments.installed(toolchain) is None
    environments.install(toolchain)
    assert environments.installed(toolchain)


def test_another_process_that_makes_it_is_waited_for(make: Make, cache: Path, tmp_path: Path) -> None:
    """Two processes find the environment locked, then one of them makes it and the other finds it made."""
    from filelock import FileLock

    toolchain = make()
    code = f"""
from pathlib import Path
from pipeline import toolchains
from pipeline.toolchains import environments
toolchains.FOLDER = Path({str(toolchain.lock.parent.parent)!r})

def run(making, base):
    print("made", flush=True)
    environments.interpreter(making._target).parent.mkdir(parents=True)
    environments.interpreter(making._target).touch()
    (making._target / environments.STAMP).touch()

environments._Making.run = run
environments.install(toolchains.load("tiny"))
"""
    folder = environments.folder(toolchain, THIS)
    folder.parent.mkdir(parents=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == (
                "toolchain tiny: another process is making the environment; waiting for it\n"
            )
    told = [process.communicate(timeout=60)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert sorted(told) == ["", "made\n"]


# --- where -----------------------------------------------------------------------------------------------------


def test_the_folder_is_that_of_lock_python_and_build_of_torch(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, with_torch = "a==1\n", "a==1\ntorch==2.13.0\n"
    found = []
    for lock, version, backend in [
        (plain, THIS, "cpu"),
        ("a==2\n", THIS, "cpu"),
        (plain, OTHER, "cpu"),
        (with_torch, THIS, "cpu"),
        (with_torch, THIS, "cu130"),
    ]:
        monkeypatch.setenv("TORCH_BACKEND", backend)
        found.append(environments.folder(make(lock=lock), version))
    assert len(set(found)) == 5
    assert environments.folder(make(lock=plain), THIS) == found[0], "without torch its build does not matter"


def test_the_cache_is_the_users_own_unless_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QUANTGATE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert environments.root() == tmp_path / "xdg" / "quantgate" / "toolchains"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUANTGATE_CACHE", "relative")
    assert environments.root() == tmp_path / "relative" / "toolchains"


def test_a_cache_that_cannot_be_written_says_what_to_set(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("QUANTGATE_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"cannot be written \(Not a directory\); set QUANTGATE_CACHE"):
        environments.install(make())


def test_removing_takes_every_state_of_one_toolchain(make: Make, cache: Path, steps: Steps) -> None:
    other = environments.install(make("tiny-more"))
    kept = environments.install(make("more"))
    first = environments.install(make(lock="a==1\n"))
    environments.install(make(lock="a==2\n"))
    half = environments.folder(make(lock="a==3\n"), THIS)
    half.mkdir()
    assert len(environments.remove("tiny")) == 3
    assert not first.exists()
    assert not half.exists()
    assert other.exists()
    assert kept.exists()
    assert environments.remove("tiny") == []


def test_an_environment_that_is_being_made_is_not_removed(make: Make, steps: Steps) -> None:
    toolchain = make()
    environments.install(toolchain)
    folder = environments.folder(toolchain, THIS)
    with environments._alone("tiny", folder), pytest.raises(UserError, match="another process is making the environ"):
        environments.remove("tiny")
    assert environments.is_complete(folder)
    assert environments.remove("tiny") == [folder]


def test_environments_of_a_toolchain_that_is_gone_can_still_be_removed(cache: Path) -> None:
    left = cache / "gone-0123456789ab"
    left.mkdir(parents=True)
    assert environments.remove("gone") == [left]
    with pytest.raises(UserError, match=r"^no toolchain 'gone'"):
        environments.remove("gone")


def test_the_size_is_that_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    before = environments.disk_bytes(tmp_path)
    (tmp_path / "a" / "b").write_bytes(b"x" * 100)
    (tmp_path / "a" / "link").symlink_to("/nowhere")
    assert environments.disk_bytes(tmp_path) - before == 100 + len("/nowhere")


# --- which Python ----------------------------------------------------------------------------------------------


def command(folder: Path, name: str, prints: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{prints}\n")
    path.chmod(0o755)
    return path


def test_this_python_comes_first_where_it_will_do(make: Make) -> None:
    assert environments.find_python(make(python=[OTHER, THIS])) == (sys.executable, THIS)


def test_else_one_on_the_path_is_taken(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = command(tmp_path / "bin", "python3.98", "echo 3.98")
    assert environments.find_python(make(python=[OTHER, "3.98"])) == (str(found), "3.98")


@pytest.mark.parametrize("shim", ["exit 127", f"echo {THIS}"])
def test_without_one_the_error_names_what_is_needed(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shim: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    command(tmp_path / "bin", f"python{OTHER}", shim)
    with pytest.raises(UserError) as caught:
        environments.find_python(make(python=[OTHER]))
    assert str(caught.value) == (
        f"toolchain tiny: needs Python {OTHER}; this is {THIS}, and there is no python{OTHER} on the PATH. Install "
        f"one, such as with `uv python install {OTHER}`"
    )


# --- torch -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uv_code", [0, 2])
def test_torch_comes_apart_from_the_lock_through_uv_else_pip(
    make: Make, steps: Steps, monkeypatch: pytest.MonkeyPatch, uv_code: int
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, uv_code)

    monkeypatch.setattr(environments.subprocess, "run", run)
    monkeypatch.setattr(environments, "_is_python", lambda command, version: True)
    monkeypatch.setenv("TORCH_BACKEND", "cu130")
    python = environments.install(make(lock="a==1\ntorch==2.13.0 ; python_version > '3'\ntorchao==1\n"))
    [uv] = asked
    assert uv[uv.index("--python") + 1] == str(python)
    assert uv[-3:] == ["--torch-backend", "cu130", "torch==2.13.0"]
    pip = [words for words in steps.said() if words.endswith("torch==2.13.0")]
    assert len(pip) == (1 if uv_code else 0)
    assert "--no-deps" in steps.said()[-1]


@pytest.mark.parametrize(("driver", "backend"), [("exit 0", "auto"), ("exit 9", "cpu"), (None, "cpu")])
def test_the_build_of_torch_follows_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str | None, backend: str
) -> None:
    monkeypatch.delenv("TORCH_BACKEND", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    if driver:
        command(tmp_path / "bin", "nvidia-smi", driver)
    assert environments.torch_backend() == backend


# --- commands --------------------------------------------------------------------------------------------------


def making(toolchain: Toolchain) -> environments._Making:
    target = environments.folder(toolchain, THIS)
    target.parent.mkdir(parents=True)
    return environments._Making(toolchain, target)


def test_a_command_that_fails_says_its_last_words_and_what_to_do(make: Make) -> None:
    step = making(make())
    code = "print('before'); print('ERROR: No matching distribution\\n'); raise SystemExit(1)"
    with pytest.raises(UserError) as caught:
        step._do("installing a", [sys.executable, "-c", code])
    log = step._log
    assert str(caught.value) == (
        "toolchain tiny: installing a failed, the last words were 'ERROR: No matching distribution' "
        f"(log: {log}). If the package index is out of reach here, run `quantgate toolchain install tiny` while "
        "online, or set QUANTGATE_CACHE to a folder in which it is installed"
    )
    assert log.read_text() == "before\nERROR: No matching distribution\n\n"


def test_what_goes_on_is_shown_once_in_a_while(
    make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr(environments.time, "monotonic", lambda: next(clock))
    making(make())._do("x", [sys.executable, "-c", "for n in range(7): print('Collecting', n)"])
    assert capsys.readouterr().out.splitlines() == [
        "toolchain tiny: 12 s, Collecting 2",
        "toolchain tiny: 24 s, Collecting 5",
    ]


def test_an_interrupted_step_ends_its_command(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(making: environments._Making, words: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(environments._Making, "_show", interrupt)
    code = f"import os, pathlib, time; pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))"
    with pytest.raises(KeyboardInterrupt):
        making(make())._do("x", [sys.executable, "-c", code + "; print('up', flush=True); time.sleep(300)"])
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_what_decides_is_the_text_of_the_lock(make: Make) -> None:
    toolchain = make(lock="ä==1\n")
    assert toolchain.pin.endswith(store.sha256_text("ä==1\n")[:12])
