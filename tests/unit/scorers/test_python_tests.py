"""Code from answers in the sandbox: what passes, and what must not pass or reach out."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.scorers import python_tests
from pipeline.scorers.python_tests import SandboxError, extract, passes, score, target_problems

ADD = "def add(a, b):\n    return a + b\n"
TESTS = "assert add(1, 2) == 3\nassert add('a', 'b') == 'ab'"


def passed(code: str, tests: str = TESTS, entry: str = "add") -> bool:
    return passes(code, tests, entry)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second on the CPU is enough here; no test depends on the time on the clock."""
    monkeypatch.setattr(python_tests, "LIMITS", python_tests.LIMITS | {"RLIMIT_CPU": 1})


@pytest.mark.parametrize(
    "output",
    [
        ADD,
        f"Here it is:\n```python\n{ADD}```\nIt adds two things.",
        f"```\n{ADD}```",
        f"```py\n{ADD}",  # cut before the fence was closed
        f"```bash\npip install add\n```\n```python\n{ADD}```\n```python\nprint(add(1, 2))\n```",
        f"```python\nprint('an example')\n```\n```python\n{ADD}```",
        "1. First:\n   ```python\n   def add(a, b):\n       return a + b\n   ```",
        f"````python\n{ADD}````",
        "add = lambda a, b: a + b",
        "from operator import add",
        f"{ADD}\nif __name__ == '__main__':\n    print(add(int(input()), 1))",
        f"{ADD}\nprint('some words', flush=True)",
        "class add:\n    def __new__(cls, a, b):\n        return a + b",
    ],
)
def test_right_code_scores_one_fenced_or_bare(output: str) -> None:
    assert score(output, {"tests": TESTS, "entry": "add"}) == 1


@pytest.mark.parametrize(
    "code",
    [
        "",
        "I would add them.",
        "def add(a, b):\n    return a - b",
        "def add(a, b):\n    return 3",
        "def plus(a, b):\n    return a + b",
        "def add(a, b):\n    raise SystemExit(0)",
        "def add(a, b) return a + b",
        f"{ADD}1 / 0",
    ],
)
def test_wrong_code_scores_zero(code: str) -> None:
    assert not passed(code)


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos._exit(0)",
        "import sys\nsys.exit(0)",
        "raise SystemExit",
        "import os\ndef add(a, b):\n    os._exit(0)",
        "print('ready')\nprint('OK')\nprint('all tests passed')",
        "import atexit, os\natexit.register(os._exit, 0)",
        "import os\nfor fd in range(3, 16):\n    try: os.write(fd, b'ready\\n' + b'0' * 32)\n    except OSError: pass",
        "import os\nfor fd in range(3, 16):\n    try: os.write(fd, b'0' * 32)\n    except OSError: pass",
        "import os\nfor fd in range(3, 16):\n    try: os.close(fd)\n    except OSError: pass",
        "import builtins\nbuiltins.AssertionError = ValueError\n",
        "assert_ = None\nimport sys\nsys.modules['tests'] = sys",
    ],
)
def test_an_early_exit_or_a_claim_of_success_is_no_success(code: str) -> None:
    wrong = "def add(a, b):\n    return None\n"
    assert not passed(f"{wrong}{code}")
    assert not passed(f"{code}\n{wrong}")


def test_tests_see_the_entry_and_no_other_name_of_the_code() -> None:
    code = f"{ADD}\ndef abs(number):\n    return 0\n"
    assert not passed(code, "assert abs(add(1, 2)) == 0")
    assert passed(code, "assert abs(add(-1, -2)) == 3")


def test_the_code_cannot_change_what_later_code_is_scored_as() -> None:
    assert not passed(f"{ADD}\nimport builtins\nbuiltins.abs = lambda number: 0", "assert abs(add(1, 2)) == 3")
    assert passed(ADD, "assert abs(add(-1, -2)) == 3")


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    pass",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True:\n    pass",
        "numbers = list(range(10**12))",
        "words = 'a' * 10**10",
        "def deep(n):\n    return deep(n + 1)\nimport sys\nsys.setrecursionlimit(10**9)\ndeep(0)",
        "while True:\n    print('x' * 10**6)",
        "import sys\nwhile True:\n    sys.stderr.write('x' * 10**6)",
    ],
)
def test_endless_loops_memory_and_output_end(code: str) -> None:
    assert not passed(f"{ADD}\n{code}")


@pytest.mark.parametrize("size", ["2**29", "2**34"])
def test_memory_is_bounded(size: str) -> None:
    assert passed(f"try:\n    bytearray({size})\nexcept MemoryError:\n    pass\nelse:\n    raise SystemExit\n{ADD}")
    assert passed(f"bytearray(2**27)\n{ADD}")


REFUSED = {
    "fork": "import os\nos.fork()",
    "forkpty": "import os\nos.forkpty()",
    "system": "import os\nos.system('true')",
    "subprocess": "import subprocess\nsubprocess.run(['true'])",
    "popen": "import os\nos.popen('true')",
    "spawn": "import os\nos.posix_spawn('/bin/true', ['true'], {})",
    "exec": "import os\nos.execv('/bin/true', ['true'])",
    "multiprocessing": "import multiprocessing\nmultiprocessing.Process(target=print).start()",
    "thread": "import threading\nthreading.Thread(target=print).start()",
    "kill": "import os, signal\nos.kill(os.getppid(), 0)",
    "socket": "import socket\nsocket.socket()",
    "url": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9')",
    "name lookup": "import socket\nsocket.getaddrinfo('localhost', 80)",
    "ctypes": "import ctypes\nctypes.CDLL(None)",
    "sqlite": "import sqlite3\nsqlite3.connect('OUTSIDE')",
    "write": "open('OUTSIDE', 'w')",
    "append": "open('OUTSIDE', 'a')",
    "low-level write": "import os\nos.open('OUTSIDE', os.O_CREAT | os.O_WRONLY)",
    "relative write": "open('../outside', 'w')",
    "read": "open('/etc/hostname')",
    "read the package": "open('PACKAGE')",
    "write to the library": "import json\nopen(json.__file__, 'a')",
    "a folder of the library": "import os\nos.open(os.path.dirname(os.__file__), os.O_RDONLY)",
    "remove": "import os\nos.remove('EXISTING')",
    "rename": "import os\nos.rename('EXISTING', 'OUTSIDE')",
    "make a folder": "import os\nos.mkdir('OUTSIDE')",
    "link": "import os\nos.symlink('EXISTING', 'link')",
    "leave the folder": "import os\nos.chdir('/')",
    "a large file": "with open('large', 'wb') as file:\n    file.write(b'x' * 2**21)",
    "more memory": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "another interpreter": "import _xxsubinterpreters",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_reaches_beyond_the_process_is_refused(name: str, tmp_path: Path) -> None:
    existing = tmp_path / "existing"
    existing.write_text("kept")
    code = (
        REFUSED[name]
        .replace("OUTSIDE", str(tmp_path / "outside"))
        .replace("EXISTING", str(existing))
        .replace("PACKAGE", str(Path(python_tests.__file__)))
    )
    # Refused means an error that the code can see: it catches it, and only then do the tests hold.
    caught = "\n".join(f"    {line}" for line in code.splitlines())
    assert passed(
        f"refused = False\ntry:\n{caught}\nexcept (OSError, ImportError):\n    refused = True\nassert refused\n{ADD}"
    )
    assert not passed(f"{code}\n{ADD}")
    assert [path.name for path in tmp_path.iterdir()] == ["existing"]
    assert existing.read_text() == "kept"


def test_the_standard_library_and_the_own_folder_can_be_used() -> None:
    code = (
        "from __future__ import annotations\n"
        "import collections, csv, dataclasses, datetime, decimal, enum, fractions, functools, hashlib, heapq, io\n"
        "import itertools, json, math, random, re, statistics, string, tempfile, textwrap, typing, unicodedata, uuid\n"
        "import asyncio, logging, unittest.mock, xml.etree.ElementTree\n"
        "@dataclasses.dataclass(order=True)\n"
        "class Pair:\n    a: int\n    b: typing.ClassVar[int] = 0\n"
        "with open('notes.txt', 'w') as file:\n    file.write('hi')\n"
        "assert open('notes.txt').read() == 'hi'\n"
    )
    assert passed(code + ADD)


def test_code_starts_in_an_empty_folder_without_environment_arguments_input_or_site_packages() -> None:
    code = (
        "import os, sys\n"
        "assert os.listdir() == []\n"
        "assert set(os.environ) <= {'PYTHONHASHSEED', 'LC_CTYPE'}\n"
        "assert sys.stdin.read() == ''\n"
        "assert not any('site-packages' in folder for folder in sys.path)\n"
        "try:\n    import pydantic\nexcept ImportError:\n    pass\nelse:\n    raise SystemExit\n"
    )
    assert passed(code + ADD)


def test_chance_is_the_same_each_time() -> None:
    """Else the same answer could pass once and fail once."""
    known = "import random\nfound = (random.random(), hash('a'), list({'a', 'b', 'c', 'd', 'e', 'f', 'g'}))\n"
    code = f"{known}def add(a, b):\n    return found"
    limits = "import random\nrandom.seed(0)\nassert add(0, 0)[0] == random.random()\n"
    assert passed(code, limits)
    # The order of a set, as a process of its own with the same seed has it.
    asked = "print(hash('a'), list({'a', 'b', 'c', 'd', 'e', 'f', 'g'}))"
    told = subprocess.run(
        [sys.executable, "-c", asked], env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert passed(code, f"found = add(0, 0)\nassert f'{{found[1]}} {{found[2]}}' == {told!r}")


def test_what_waits_is_stopped_and_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Seen(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

        def communicate(self, input: bytes | None = None, timeout: float | None = None) -> Any:
            """As if the time were over once the code waits: the clock decides nothing here."""
            assert input is not None
            assert timeout == python_tests.WALL_S
            assert self.stdin is not None
            self.stdin.write(input)
            self.stdin.close()
            asleep = 0
            while (
                asleep < 30 and _state(self.pid) != "Z"
            ):  # Starting Python never sleeps for so long in a row, however slow it is.
                asleep = asleep + 1 if _state(self.pid) == "S" else 0
                time.sleep(0.01)
            raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr(subprocess, "Popen", Seen)
    assert not passed(f"{ADD}import time\ntime.sleep(1000)")
    [process] = started
    assert process.returncode == -9
    assert not Path(f"/proc/{process.pid}").exists()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_sandbox_that_does_not_start_is_an_error_and_not_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_tests, "LIMITS", {"RLIMIT_NONE": 1})
    with pytest.raises(SandboxError, match=r"did not start: AttributeError.*RLIMIT_NONE"):
        passed(ADD)


def test_no_block_that_defines_the_entry_leaves_the_first_block_of_python() -> None:
    assert extract("```js\nx()\n```\n```python\na = 1\n```\n```python\nb = 2\n```", "add") == "a = 1\n"
    assert extract("def adder(): ...", "add") == "def adder(): ..."
    assert extract("```python\ndef adder(): ...\n```\n```python\nadd = 1\n```", "add") == "add = 1\n"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"tests": TESTS}, '"entry": "add"'),
        ({"tests": "", "entry": "add"}, "both texts"),
        ({"tests": TESTS, "entry": 3}, "both texts"),
        ({"tests": TESTS, "entry": "add()"}, "'add()' is no name"),
        ({"tests": "assert add(1", "entry": "add"}, "target.tests is not Python: "),
        ({"tests": "add(1, 2)", "entry": "add"}, "asserts nothing"),
        ({"tests": "assert True", "entry": "add"}, "never uses the entry 'add'"),
    ],
)
def test_a_bad_target_is_named(target: Any, words: str) -> None:
    [problem] = target_problems(target)
    assert words in problem


def test_a_good_target_passes() -> None:
    assert target_problems({"tests": TESTS, "entry": "add"}) == []
