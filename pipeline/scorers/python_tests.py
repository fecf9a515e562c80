"""Code in an answer, executed with an item's tests in a process that can do little else.

What the sandbox guards against, and what not, stands in docs/scorers.md.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from pipeline.scorers.sandbox_child import READY
from pipeline.scorers.targets import is_text, shape_problems

MIB = 2**20
LIMITS = {
    "RLIMIT_CPU": 5,
    "RLIMIT_AS": 512 * MIB,
    "RLIMIT_FSIZE": MIB,
    "RLIMIT_NOFILE": 32,
    "RLIMIT_NPROC": 0,
    "RLIMIT_CORE": 0,
}
"""Seconds, bytes or numbers, by the name of the limit in `resource`. Time on the CPU decides, not time on the clock,
so that a busy machine changes no score."""
WALL_S = 30
"""For code that sleeps or waits."""
CHILD = Path(__file__).with_name("sandbox_child.py")
FLAGS = ("-s", "-S", "-P", "-B", "-X", "utf8")
"""No site packages, no folder of the script, no bytecode written. With an environment of our own, -E would only keep
out the hash seed, which makes sets and with them answers the same each time."""
ENVIRONMENT = {"PYTHONHASHSEED": "0"}
REPORT_BYTES = 1024

_FENCE = re.compile(r"^[ \t]*(`{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*\1`*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_LANGUAGES = {"", "python", "python3", "py"}


class SandboxError(RuntimeError):
    """The sandbox could not be set up, so that no answer can be scored."""


def score(output: str, target: dict[str, Any]) -> float:
    """1 when the code in the output defines the entry and every test holds, within the limits."""
    return float(passes(extract(output, target["entry"]), target["tests"], target["entry"]))


def extract(output: str, entry: str) -> str:
    """The first fenced block that defines the entry, else the first block of Python; all of it without a fence."""
    blocks = [textwrap.dedent(code) for _, language, code in _FENCE.findall(output) if language.lower() in _LANGUAGES]
    defines = re.compile(rf"^(?:(?:async\s+)?def|class)\s+{entry}\b|^{entry}\s*[:=]", re.MULTILINE)
    return next((block for block in blocks if defines.search(block)), blocks[0] if blocks else output)


def passes(code: str, tests: str, entry: str) -> bool:
    """Whether the tests hold on what the code defines as `entry`; they see no other name of it.

    Raises:
        SandboxError: the sandbox itself did not start, which says nothing about the code.
    """
    token = secrets.token_hex(16)
    job = json.dumps({"code": code, "tests": tests, "entry": entry, "token": token, "limits": LIMITS})
    report, words = _run(job)
    if not report.startswith(READY):
        lines = words.decode(errors="replace").strip().splitlines()
        raise SandboxError(f"the sandbox for Python tests did not start: {lines[-1] if lines else 'no output'}")
    return report == READY + token.encode()


def _run(job: str) -> tuple[bytes, bytes]:
    """What the sandbox reported and what it wrote on standard error; whatever it started has ended."""
    reading, writing = os.pipe()
    with (
        open(reading, "rb", buffering=0) as report,  # noqa: PTH123 (a descriptor, not a path)
        tempfile.TemporaryFile() as words,
        tempfile.TemporaryDirectory(prefix="quantgate-sandbox-", ignore_cleanup_errors=True) as folder,
    ):
        try:
            process = subprocess.Popen(
                [sys.executable, *FLAGS, str(CHILD), str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=words,  # A file, so that the limit on file size holds for it.
                cwd=folder,
                env=ENVIRONMENT,
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(job.encode(), timeout=WALL_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        words.seek(0)
        # Whatever escaped and still holds the other end must not hold us.
        os.set_blocking(reading, False)
        return report.read(REPORT_BYTES) or b"", words.read()


def target_problems(target: Any) -> list[str]:
    form = '{"tests": "assert add(1, 2) == 3", "entry": "add"}'
    if found := shape_problems(target, form, {"tests", "entry"}):
        return found
    tests, entry = target["tests"], target["entry"]
    if not is_text(tests) or not is_text(entry):
        return [f"target must be {form}, both texts"]
    if not entry.isidentifier():
        return [f"target.entry {entry!r} is no name of a Python function or class"]
    try:
        nodes = list(ast.walk(ast.parse(tests)))
    except (SyntaxError, ValueError, RecursionError) as error:
        return [f"target.tests is not Python: {error}"]
    if not any(isinstance(node, ast.Assert) for node in nodes):
        found.append("target.tests asserts nothing, so any code would pass")
    if not any(isinstance(node, ast.Name) and node.id == entry for node in nodes):
        found.append(f"target.tests never uses the entry {entry!r}")
    return found
