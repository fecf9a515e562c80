"""Make the virtual environment and install the locked packages; a second call finds all done and installs nothing.

Runs on any Python 3 and uses its standard library only. `VENV` names the folder (default .venv). torch comes first
and apart from the lock, since one version has a CPU and several CUDA builds: uv picks the build for this machine
(`TORCH_BACKEND` overrides: cpu, cu130, …), and where uv cannot reach PyTorch's index, pip's own build is taken.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
OLDEST, NEWEST = (3, 11), (3, 13)


def main() -> None:
    venv = Path(os.environ.get("VENV", ROOT / ".venv")).absolute()
    stamp = venv / ".installed"
    wanted = hashlib.sha256(LOCK.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    python = venv / "bin" / "python"
    if not python.exists():
        say(f"creating {venv}")
        run([find_python(), "-m", "venv", str(venv)])
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--progress-bar=off"]
    run([*pip, pinned("uv")])
    install_torch(python, pip)
    say("installing the packages of requirements.lock")
    run([*pip, "--requirement", str(LOCK)])
    run([*pip, "--no-deps", "--editable", str(ROOT)])
    stamp.write_text(wanted)
    say("done")


def install_torch(python: Path, pip: list[str]) -> None:
    torch = pinned("torch")
    backend = os.environ.get("TORCH_BACKEND") or ("auto" if has_gpu() else "cpu")
    say(f"installing {torch}, {backend} build")
    uv = [
        str(python),
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--python",
        str(python),
        "--torch-backend",
        backend,
        torch,
    ]
    if subprocess.run(uv, env={**os.environ, "UV_HTTP_RETRIES": "0"}, capture_output=True, check=False).returncode:
        say("PyTorch's own index is out of reach; taking the build that pip finds, which may be the large CUDA one")
        run([*pip, torch])


def has_gpu() -> bool:
    tool = shutil.which("nvidia-smi")
    return tool is not None and subprocess.run([tool, "-L"], capture_output=True, check=False).returncode == 0


def find_python() -> str:
    """This Python if its version will do, else a newer or older one on the PATH."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return sys.executable
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        found = shutil.which(f"python3.{minor}")
        if found:
            return found
    given = ".".join(map(str, sys.version_info[:2]))
    sys.exit(f"error: quantgate needs Python 3.11 to 3.13, found {given}; install one and run this again")


def pinned(package: str) -> str:
    """The package's line of the lock, such as `torch==2.13.0`."""
    match = re.search(rf"^{package}==[^\s;]+", LOCK.read_text(), re.MULTILINE)
    if match is None:
        sys.exit(f"error: {LOCK} does not pin {package}; run `make lock`")
    return match.group()


def run(command: list[str]) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)} ended with {done.returncode}; mend what it says and run this again")


def say(text: str) -> None:
    print(f"install: {text}", flush=True)


if __name__ == "__main__":
    main()
