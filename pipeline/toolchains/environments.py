"""Making the environment of a toolchain on first use, in a cache folder that all projects share.

An environment is complete when its stamp is there, which is written last. One lock per environment keeps two
processes from making it at once; it is the system's, so a process that dies gives it back.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline import plugins, processes, store, toolchains
from pipeline.errors import UserError, WorkError
from pipeline.toolchains import Toolchain

STAMP = ".complete"
SHOW_INTERVAL_S = 10.0
THIS_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
DIGITS = 12
TORCH = re.compile(r"^torch==[^\s;]+", re.MULTILINE)


def python_for(package: str, plugin: str) -> Path:
    """The interpreter that workers of a quantizer or engine run under; its environment is made where it is missing.

    Raises:
        WorkError: as `python`.
    """
    try:
        return python(plugins.load(package, plugin).TOOLCHAIN)
    except UserError as error:
        raise WorkError(error.problems) from None


def python(pin: str | None) -> Path:
    """The interpreter of the toolchain that a `TOOLCHAIN` names; this one for None.

    Raises:
        UserError: as `toolchains.pinned` and `install`.
    """
    return processes.PYTHON if pin is None else install(toolchains.pinned(pin))


def install(toolchain: Toolchain) -> Path:
    """Make the environment where it is missing; returns its interpreter.

    Raises:
        UserError: no fitting Python, no room to write, or pip did not get or build a package.
    """
    found = installed(toolchain)
    if found:
        return interpreter(found)
    base, version = find_python(toolchain)
    target = folder(toolchain, version)
    with _alone(toolchain.name, target):
        if not is_complete(target):
            _Making(toolchain, target).run(base)
    return interpreter(target)


def installed(toolchain: Toolchain) -> Path | None:
    """The complete environment of the lock as it is now, if there is one."""
    folders = (folder(toolchain, version) for version in _versions(toolchain))
    return next(filter(is_complete, folders), None)


def remove(name: str) -> list[Path]:
    """Delete every environment of this name, those of earlier locks and half-made ones included.

    Raises:
        UserError: there is neither one nor a toolchain of that name, or another process is making one.
    """
    found = [path for path in root().glob(f"{name}-*") if path.is_dir() and _is_of(name, path)]
    if not found:
        toolchains.load(name)
    for path in found:
        with _alone(name, path, waits=False):
            # First, so that what is left of an interrupted removal does not pass for complete.
            (path / STAMP).unlink(missing_ok=True)
            shutil.rmtree(path)
            _log(path).unlink(missing_ok=True)
    return found


# --- where -----------------------------------------------------------------------------------------------------


def root() -> Path:
    """`QUANTGATE_CACHE`, or the user's cache folder; an environment cannot be moved once it is made."""
    from platformdirs import user_cache_path

    wanted = os.environ.get("QUANTGATE_CACHE")
    cache = Path(wanted).expanduser().absolute() if wanted else user_cache_path("quantgate")
    return cache / "toolchains"


def folder(toolchain: Toolchain, version: str) -> Path:
    """Of the environment that this lock makes with this Python version and, if it has torch, this build of torch."""
    lock = toolchain.lock.read_text(encoding="utf-8")
    state = [lock, version, torch_backend() if TORCH.search(lock) else None]
    return root() / f"{toolchain.name}-{store.sha256_text(json.dumps(state))[:DIGITS]}"


def interpreter(environment: Path) -> Path:
    return environment / "bin" / "python"


def is_complete(environment: Path) -> bool:
    """Made to the end, and the Python that it was made from is still there."""
    return (environment / STAMP).is_file() and interpreter(environment).exists()


def disk_bytes(environment: Path) -> int:
    return sum(path.lstat().st_size for path in environment.rglob("*"))


def _is_of(name: str, path: Path) -> bool:
    return re.fullmatch(rf"{re.escape(name)}-[0-9a-f]{{{DIGITS}}}", path.name) is not None


def _log(environment: Path) -> Path:
    return environment.with_name(f"{environment.name}.log")


# --- which Python ----------------------------------------------------------------------------------------------


def find_python(toolchain: Toolchain) -> tuple[str, str]:
    """A Python to make the environment from, and its version: this one if it will do, else one on the PATH.

    Raises:
        UserError: there is none.
    """
    for version in _versions(toolchain):
        command = sys.executable if version == THIS_VERSION else shutil.which(f"python{version}")
        if command and _is_python(command, version):
            return command, version
    wanted = " or ".join(toolchain.description.python)
    commands = " or ".join(f"python{version}" for version in toolchain.description.python)
    raise UserError(
        f"toolchain {toolchain.name}: needs Python {wanted}; this is {THIS_VERSION}, and there is no {commands} on the "
        f"PATH. Install one, such as with `uv python install {toolchain.description.python[0]}`"
    )


def _versions(toolchain: Toolchain) -> list[str]:
    """Those that will do, this Python's own first."""
    return sorted(toolchain.description.python, key=lambda version: version != THIS_VERSION)


def _is_python(command: str, version: str) -> bool:
    """A command of that name may be a shim of a version manager, which has no such version."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([command, "-I", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


# --- making ----------------------------------------------------------------------------------------------------


@contextmanager
def _alone(name: str, target: Path, *, waits: bool = True) -> Iterator[None]:
    """The only process that makes or removes this environment; where another one does, waits for it if `waits`.

    Raises:
        UserError: the cache folder cannot be written, or another process is at it and this one is not to wait.
    """
    from filelock import FileLock, Timeout

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(target.with_name(f"{target.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if not waits:
                raise UserError(
                    f"toolchain {name}: another process is making the environment {target}; wait for it, or end it"
                ) from None
            _say(name, "another process is making the environment; waiting for it")
            lock.acquire()
    except OSError as error:
        raise UserError(
            f"toolchain {name}: {target.parent} cannot be written ({error.strerror}); set QUANTGATE_CACHE to "
            "a folder that can"
        ) from None
    try:
        yield
    finally:
        lock.release()


class _Making:
    """One environment from nothing to its stamp. pip's words go into a log beside the folder."""

    def __init__(self, toolchain: Toolchain, target: Path) -> None:
        self._toolchain = toolchain
        self._target = target
        self._log = _log(target)
        # Isolated: the main environment's PYTHONPATH must not pass for packages that are there already.
        self._python = [str(interpreter(target)), "-I", "-m"]
        self._pip = [*self._python, "pip", "install", "--no-input", "--progress-bar=off", "--disable-pip-version-check"]
        self._start = self._shown = time.monotonic()

    def run(self, base: str) -> None:
        size = self._toolchain.description
        self._say(
            f"making the environment in {self._target}, about {size.download_gib:g} GiB to download and "
            f"{size.disk_gib:g} GiB on disk"
        )
        shutil.rmtree(self._target, ignore_errors=True)
        self._log.unlink(missing_ok=True)
        self._do("making an empty environment", [base, "-m", "venv", str(self._target)])
        lock = self._toolchain.lock.read_text(encoding="utf-8")
        torch = TORCH.search(lock)
        if torch:
            self._install_torch(torch.group())
        self._say("installing the packages of requirements.lock")
        # The lock is complete, but for what belongs to torch's CUDA build and came with it.
        command = [*self._pip, "--no-deps", "--requirement", str(self._toolchain.lock)]
        self._do("installing the packages of requirements.lock", command)
        (self._target / STAMP).write_text(self._toolchain.pin)
        self._say(f"done in {time.monotonic() - self._start:.0f} s")

    def _install_torch(self, torch: str) -> None:
        """Apart from the lock, since one version has a CPU and several CUDA builds; as scripts/install.py does."""
        backend = torch_backend()
        self._say(f"installing {torch}, {backend} build")
        uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(interpreter(self._target))]
        quick = {**os.environ, "UV_HTTP_RETRIES": "0"}
        command = [*uv, "--torch-backend", backend, torch]
        if subprocess.run(command, env=quick, capture_output=True, check=False).returncode:
            self._say("uv did not get it from PyTorch's own index; taking the build that pip finds")
            self._do(f"installing {torch}", [*self._pip, torch])

    def _do(self, what: str, command: Sequence[str]) -> None:
        """Raises UserError, with the last words, when the command fails."""
        last = "nothing"
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace",
        )  # fmt: skip
        assert process.stdout is not None
        with process, self._log.open("a", encoding="utf-8") as log:
            try:
                for line in process.stdout:
                    log.write(line)
                    if line.strip():
                        last = line.strip()
                        self._show(last)
            except BaseException:
                # Leaving the block waits for it.
                process.kill()
                raise
        if process.returncode:
            name = self._toolchain.name
            raise UserError(
                f"toolchain {name}: {what} failed, the last words were {last!r} (log: {self._log}). If the package "
                f"index is out of reach here, run `quantgate toolchain install {name}` while online, or set "
                "QUANTGATE_CACHE to a folder in which it is installed"
            )

    def _show(self, words: str) -> None:
        now = time.monotonic()
        if now - self._shown >= SHOW_INTERVAL_S:
            self._shown = now
            self._say(f"{now - self._start:.0f} s, {words[:100]}")

    def _say(self, words: str) -> None:
        _say(self._toolchain.name, words)


def torch_backend() -> str:
    """Which build of torch: `TORCH_BACKEND` (cpu, cu130, …), else what uv finds for the driver, else the CPU's."""
    return os.environ.get("TORCH_BACKEND") or ("auto" if _has_gpu() else "cpu")


def _has_gpu() -> bool:
    tool = shutil.which("nvidia-smi")
    return tool is not None and subprocess.run([tool, "-L"], capture_output=True, check=False).returncode == 0


def _say(name: str, words: str) -> None:
    print(f"toolchain {name}: {words}", flush=True)
