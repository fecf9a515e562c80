"""The supervisor on real processes: a project folder whose `pipeline.runs` holds the test's own run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import pipeline
from pipeline import supervise
from pipeline.errors import UserError
from pipeline.supervise import Failure

LOG = Path("logs/fake.log")

HEAD = """\
import os, signal, subprocess, sys, time
from pathlib import Path
from pydantic import BaseModel
from pipeline import progress
from pipeline.errors import UserError
from pipeline.records import Outcome, Status

class Job(BaseModel):
    variant: str

DONE = Outcome(variant="made", status=Status.OK)

def run(job):
"""


class Job(BaseModel):
    variant: str = "a"


Run = Callable[..., dict[str, Any] | Failure]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Supervise a worker whose run has the given body."""
    package = tmp_path / "pipeline"
    package.mkdir()
    for entry in Path(pipeline.__file__).parent.iterdir():
        if entry.name not in ("runs", "__pycache__"):
            (package / entry.name).symlink_to(entry)
    (package / "runs").mkdir()
    (package / "runs" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)  # the working directory comes first then

    def supervised(body: str, timeout_s: float = 60, **environment: str) -> dict[str, Any] | Failure:
        (package / "runs" / "fake.py").write_text(HEAD + textwrap.indent(textwrap.dedent(body), "    "))
        return supervise.run("fake", Job(), title="fake run", log=LOG, timeout_s=timeout_s, environment=environment)

    return supervised


def reason(found: dict[str, Any] | Failure) -> str:
    assert isinstance(found, Failure)
    assert found.reason.endswith(f" (log: {LOG})")
    assert found.wall_s > 0
    return found.reason.removesuffix(f" (log: {LOG})")


def is_running(pid: int) -> bool:
    """Whether a process lives; one that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_record_comes_back_as_json(run: Run) -> None:
    found = run("return Outcome(variant=job.variant, status=Status.INVALID, reason='über')")
    assert found == {"schema_version": 2, "variant": "a", "status": "invalid", "reason": "über"}


def test_an_exception_is_a_failure_with_type_and_first_line(run: Run) -> None:
    assert reason(run("raise RuntimeError('no kernel\\nsecond line')")) == "RuntimeError: no kernel"
    log = LOG.read_text()
    assert "Traceback" in log
    assert "second line" in log


def test_an_error_on_import_is_a_failure(run: Run) -> None:
    assert reason(run("import no_such_module")) == "ModuleNotFoundError: No module named 'no_such_module'"


def test_a_users_mistake_is_raised_again_with_all_problems(run: Run) -> None:
    with pytest.raises(UserError) as caught:
        run("raise UserError(['one is wrong', 'two is wrong'])")
    assert caught.value.problems == ("one is wrong", "two is wrong")
    assert "Traceback" not in LOG.read_text()


def test_a_worker_that_exits_is_a_failure_with_its_code_and_last_words(run: Run) -> None:
    found = run("print('before', flush=True); progress.report(1, 2, 'x'); os._exit(3)")
    assert reason(found) == "the worker ended with exit code 3; its last words: before"


def test_a_traceback_that_the_end_cut_off_is_not_the_last_words(run: Run) -> None:
    cut = "Exception in thread a:\nTraceback (most recent call last):\n  File 'a.py', line 51, in run"
    found = run(f"print('RuntimeError: the cause', flush=True); print({cut!r}); " + "sys.stdout.flush(); os._exit(1)")
    assert reason(found) == "the worker ended with exit code 1; its last words: RuntimeError: the cause"
    assert supervise.last_words(["  indented", "  alone"]) == "  alone"


@pytest.mark.parametrize("body", ["sys.exit(0)", "os._exit(0)"])
def test_a_worker_without_result_is_a_failure_whatever_its_code(run: Run, body: str) -> None:
    assert reason(run(body)) == "the worker ended with exit code 0; its last words: no output"


def test_a_killed_worker_is_a_failure_that_names_the_signal(run: Run) -> None:
    found = run("print('loading', flush=True); os.kill(os.getpid(), signal.SIGKILL)")
    assert reason(found) == (
        "the worker was killed by SIGKILL, most often the system out of memory; its last words: loading"
    )
    found = run("os.kill(os.getpid(), signal.SIGSEGV)")
    assert reason(found) == "the worker was killed by SIGSEGV; its last words: no output"


def test_the_time_limit_ends_the_worker_and_what_it_started(run: Run) -> None:
    start = time.monotonic()
    found = run(
        """
        child = subprocess.Popen(["sleep", "60"])
        grandchild = subprocess.Popen([sys.executable, "-c",
            "import subprocess, pathlib, time; p = subprocess.Popen(['sleep', '60']);"
            "pathlib.Path('pids').open('a').write(f'{p.pid} '); time.sleep(60)"])
        Path("pids").open("a").write(f"{child.pid} {grandchild.pid} ")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
        """,
        timeout_s=3,
    )
    assert reason(found) == "stopped after the time limit of 3 s"
    assert time.monotonic() - start < 30
    pids = [int(pid) for pid in Path("pids").read_text().split()]
    assert len(pids) == 3
    deadline = time.monotonic() + 5
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in pids if is_running(pid)] == []


def test_a_worker_within_the_time_limit_is_not_stopped(run: Run) -> None:
    assert isinstance(run("time.sleep(0.2); return DONE", timeout_s=30), dict)


def test_the_log_keeps_words_without_colours_and_progress(run: Run) -> None:
    run(
        r"""
        print("\x1b[1;31mred\x1b[0m and \x1b[2K plain   ")
        print("10%\r20%\r30%")
        print("to stderr", file=sys.stderr)
        print("   ")
        progress.report(1, 2, "layers")
        sys.stdout.buffer.write(b"bad \xff byte\n")
        return DONE
        """
    )
    assert LOG.read_text().splitlines() == ["red and  plain", "10%", "20%", "30%", "to stderr", "bad � byte"]


def test_the_log_is_that_of_the_last_run(run: Run) -> None:
    run("print('first'); return DONE")
    run("print('second'); return DONE")
    assert LOG.read_text() == "second\n"


def test_progress_is_shown_and_words_where_there_is_none(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervise, "PLAIN_INTERVAL_S", 0.0)
    run("print('loading'); progress.report(3, 12, 'layers'); return DONE")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fake run: started"
    assert [line.split(" s, ")[1] for line in lines[1:]] == ["loading", "layers 3/12"]


def test_a_chatty_worker_shows_one_line_in_a_while(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("for n in range(500): print(n)\nreturn DONE")
    assert capsys.readouterr().out == "fake run: started\n"


def test_a_terminal_gets_a_bar_that_takes_square_brackets_literally(capsys: pytest.CaptureFixture[str]) -> None:
    with supervise._BarDisplay("fake run") as display:
        display.line("[/red] no markup [bold")
    assert "[/red] no markup [bold" in capsys.readouterr().out
    with supervise._BarDisplay("fake run") as display:
        display.line('@quantgate-progress {"done": 3, "total": 12, "what": "[layers]"}')
    out = capsys.readouterr().out
    assert "3/12" in out
    assert "[layers]" in out


def test_workers_are_offline_quiet_and_in_the_environment_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_OUTSIDE", "kept")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    run(
        """
        names = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK", "FROM_OUTSIDE", "GPTQ_X")
        print(*(os.environ.get(name) for name in names))
        return DONE
        """,
        GPTQ_X="7",
    )
    assert LOG.read_text().splitlines() == ["1 1 1 kept 7"]
    run("print(os.environ['HF_HUB_OFFLINE']); return DONE", HF_HUB_OFFLINE="0")
    assert LOG.read_text() == "0\n"


def test_a_worker_does_not_read_what_is_typed(run: Run) -> None:
    keyboard, typist = os.pipe()
    os.write(typist, b"typed\n")
    os.close(typist)
    saved = os.dup(0)
    os.dup2(keyboard, 0)
    try:
        run("print(repr(sys.stdin.read())); return DONE")
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(keyboard)
    assert LOG.read_text() == "''\n"


def test_nothing_is_left_in_the_temporary_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    run("return DONE")
    run("os._exit(1)")
    assert list(scratch.iterdir()) == []


def test_what_a_finished_worker_started_is_ended_too(run: Run) -> None:
    run(
        """
        child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        Path("pid").write_text(str(child.pid))
        return DONE
        """
    )
    pid = int(Path("pid").read_text())
    time.sleep(0.2)
    alive = is_running(pid)
    if alive:
        os.kill(pid, signal.SIGKILL)
    assert not alive


def test_a_process_left_with_the_output_does_not_hold_the_supervisor(run: Run) -> None:
    start = time.monotonic()
    run('subprocess.Popen(["sleep", "4"]); os._exit(3)', timeout_s=1)
    assert time.monotonic() - start < 3.5


COMMAND = """
import sys
from pathlib import Path
from pipeline import cli, supervise
from pipeline.runs.fake import Job

@cli.app.command()
def work():
    supervise.run("fake", Job(variant="a"), title="x", log=Path("log"), timeout_s=60, environment={})

sys.argv = ["quantgate", "work"]
cli.main()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_command_that_is_ended_ends_its_worker(run: Run, tmp_path: Path, name: str) -> None:
    run("return DONE")
    fake = tmp_path / "pipeline" / "runs" / "fake.py"
    body = "    Path('half').write_text(str(os.getpid())); Path('half').rename('pid'); time.sleep(60)"
    fake.write_text(HEAD + body)
    command = subprocess.Popen([sys.executable, "-c", COMMAND], stdout=subprocess.DEVNULL)
    try:
        while not Path("pid").exists():
            assert command.poll() is None
            time.sleep(0.05)
        worker = int(Path("pid").read_text())
        number = signal.Signals[name]
        command.send_signal(number)
        assert command.wait() == 128 + number
        alive = is_running(worker)
        if alive:
            os.kill(worker, signal.SIGKILL)
        assert not alive
    finally:
        command.kill()
