from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline import processes

INNER = "import os, time, pathlib; pathlib.Path('half').write_text(str(os.getpid())); os.rename('half', 'pid')"
MIDDLE = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
OUTER = """
import signal, sys
from pipeline import processes
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background begins without
processes.exit_on_signals()
processes.run([sys.executable, "-c", *sys.argv[1:]])
"""


def is_running(pid: int) -> bool:
    """Whether a process lives; one that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("code", [0, 7])
def test_a_command_gives_its_exit_code(code: int) -> None:
    assert processes.run([sys.executable, "-c", f"raise SystemExit({code})"]) == code


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, None)])
def test_what_ends_the_process_ends_all_that_its_command_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, code: int | None
) -> None:
    """As of DVC, which on its own leaves the stage that it runs."""
    monkeypatch.setenv("PYTHONPATH", str(Path(processes.__file__).parents[1]))
    outer = subprocess.Popen(
        [sys.executable, "-c", OUTER, MIDDLE, f"{INNER}; time.sleep(120)"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    try:
        while not (tmp_path / "pid").exists():
            assert outer.poll() is None
            time.sleep(0.05)
        inner = int((tmp_path / "pid").read_text())
        outer.send_signal(sent)
        ended = outer.wait()
        assert ended == code if code is not None else ended != 0
        deadline = time.monotonic() + 60
        while is_running(inner) and time.monotonic() < deadline:
            time.sleep(0.05)
        alive = is_running(inner)
        if alive:
            os.kill(inner, signal.SIGKILL)
        assert not alive
    finally:
        outer.kill()
