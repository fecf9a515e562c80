"""Write requirements.lock from pyproject.toml, or with --check tell whether it is up to date.

The lock holds for Python 3.11 to 3.13. The CUDA libraries are left out: they come with torch's CUDA build, which pins
them itself, and a machine without a GPU needs none of them.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
OF_CUDA = re.compile(r"^(nvidia-(?!ml-py)|cuda-|triton==|cutlass)")


def main() -> None:
    check = "--check" in sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, LOCK.name)
        if LOCK.exists():
            # uv keeps versions that the file already has, so the lock moves only when pyproject.toml does.
            shutil.copy(LOCK, draft)
        command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--all-extras", "--universal"]
        command += ["--python-version", "3.11", "--no-header", "--no-annotate", "--quiet", "--output-file", str(draft)]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            sys.exit("error: uv could not resolve pyproject.toml")
        lines = [line for line in draft.read_text().splitlines() if not OF_CUDA.match(line)]
    text = "\n".join(lines) + "\n"
    if not check:
        LOCK.write_text(text)
    elif text != LOCK.read_text():
        sys.exit("error: requirements.lock does not fit pyproject.toml; run `make lock` and commit it")


if __name__ == "__main__":
    main()
