"""Writing a lock: every package with its version, resolved by uv, and installed by pip later on."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pipeline import store, toolchains
from pipeline.errors import UserError

PACKAGE = toolchains.FOLDER.parent
PLUGINS = (PACKAGE / "quantizers", PACKAGE / "engines")
OF_CUDA = re.compile(r"^(nvidia-(?!ml-py)|cuda-|triton==|cutlass)")
"""What torch's CUDA build brings along and pins itself; a machine without a GPU needs none of it."""


def resolve(source: Path, lock: Path, *options: str) -> str:
    """The text of a lock for the requirements in `source`. Versions that `lock` has are kept where they still fit.

    What belongs to torch's CUDA build is left out, but for packages that `source` itself names.

    Raises:
        UserError: uv is missing or found no versions that fit.
    """
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, lock.name)
        if lock.exists():
            shutil.copy(lock, draft)
        command = [sys.executable, "-m", "uv", "pip", "compile", str(source), *options]
        command += ["--no-header", "--no-annotate", "--quiet", "--output-file", str(draft)]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise UserError(f"uv could not resolve {source}: {' '.join(done.stderr.split())}")
        lines = draft.read_text(encoding="utf-8").splitlines()
    named = source.read_text(encoding="utf-8").splitlines()
    wanted = {match.group() for line in named if (match := re.match(r"[\w.-]+", line))}
    return "".join(f"{line}\n" for line in lines if not OF_CUDA.match(line) or re.split(r"[=\s]", line)[0] in wanted)


def lock(name: str) -> list[Path]:
    """Write a toolchain's requirements.lock, and the new pin where a quantizer or engine names it.

    Returns the files that changed.

    Raises:
        UserError: there is no such toolchain, or as `resolve`.
    """
    toolchain = toolchains.load(name)
    text = resolve(toolchain.requirements, toolchain.lock, "--python-version", toolchain.description.python[0])
    changed = _replace(toolchain.lock, text)
    stale = re.compile(rf'"{re.escape(name)}@[0-9a-f]*"')
    for path in sorted(path for folder in PLUGINS for path in folder.glob("*.py")):
        changed += _replace(path, stale.sub(f'"{toolchain.pin}"', path.read_text(encoding="utf-8")))
    return changed


def _replace(path: Path, text: str) -> list[Path]:
    """The path, where its text is another one now."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return []
    store.write_text(path, text)
    return [path]
