"""One answer's code with its tests, as a process of its own: the script that `python_tests` starts.

Takes a JSON job on standard input. To the file descriptor named by the only argument it writes READY before it runs any
of the code, and the job's token once every test has held. An exit code or printed words say nothing: the code that is
tested could give them too.
It runs under this Python without site packages, so it imports the standard library alone.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import resource
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

REFUSED = frozenset(["ctypes", "fcntl", "os", "resource", "signal", "socket", "sqlite3", "subprocess", "syslog"])
"""Families of audit events that reach beyond this process (docs.python.org/3/library/audit_events.html)."""
SIDE_DOORS = {"_posixsubprocess": ["fork_exec"], "_thread": ["start_new_thread", "start_new", "start_joinable_thread"]}
"""Functions that start processes and threads without an audit event, in some version of Python."""
ALLOWED = frozenset({"os.listdir", "os.scandir", "os.walk", "os.putenv", "os.unsetenv"})
REFUSED_MODULES = frozenset({"_dbm", "_gdbm", "_tkinter", "_interpreters", "_xxsubinterpreters"})
"""They open files or start interpreters behind the audit hook."""
READY = b"ready\n"
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main() -> None:
    report = int(sys.argv[1])
    job = json.loads(sys.stdin.read())
    token, write, leave = job["token"].encode(), os.write, os._exit
    limit(job["limits"])
    random.seed(0)
    _close_side_doors()
    sys.addaudithook(guard(os.path.realpath(os.curdir), [os.path.realpath(folder) for folder in sys.path]))
    write(report, READY)
    answer = _run("answer", job["code"], {})
    _run("tests", job["tests"], {job["entry"]: answer[job["entry"]]})
    write(report, token)
    leave(0)


def limit(limits: Mapping[str, int]) -> None:
    """Bounds that the kernel keeps, none above those that hold already. Processes of root are not counted."""
    for name, value in limits.items():
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def guard(folder: str, libraries: list[str]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that lets code read the standard library, use files in `folder`, and reach nothing else."""
    realpath, isdir, decode = os.path.realpath, os.path.isdir, os.fsdecode

    def inside(path: str, owner: str) -> bool:
        return path == owner or path.startswith(owner + os.sep)

    def check_open(path: Any, _: Any, flags: int) -> None:
        if isinstance(path, int):
            return
        real = realpath(decode(path))
        readable = not flags & WRITING and not isdir(real) and any(inside(real, library) for library in libraries)
        if not readable and not inside(real, folder):
            raise PermissionError(f"the sandbox does not open {path!r}")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            check_open(*arguments)
        elif event == "import":
            if arguments[0] in REFUSED_MODULES or arguments[0].startswith("_test"):
                raise PermissionError(f"the sandbox does not import {arguments[0]}")
        elif event.partition(".")[0] in REFUSED and event not in ALLOWED:
            raise PermissionError(f"the sandbox does not allow {event}")

    return hook


def _close_side_doors() -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise PermissionError("the sandbox starts no process and no thread")

    for module, names in SIDE_DOORS.items():
        door = importlib.import_module(module)
        for name in names:
            if hasattr(door, name):
                setattr(door, name, refuse)


def _run(name: str, code: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Execute code as a module of its own, since dataclasses and others look their module up; returns its names."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    vars(module).update(names)
    exec(compile(code, name, "exec", dont_inherit=True), vars(module))
    return vars(module)


if __name__ == "__main__":
    main()
