"""Write requirements.lock from pyproject.toml, or with --check tell whether it is up to date.

The lock holds for Python 3.11 to 3.13. The CUDA libraries are left out: they come with torch's CUDA build, which pins
them itself, and a machine without a GPU needs none of them.
"""

import sys
from pathlib import Path

from pipeline.errors import UserError
from pipeline.toolchains import locking

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"


def main() -> None:
    # Versions that the lock has are kept, so it moves only when pyproject.toml does.
    options = ["--all-extras", "--universal", "--python-version", "3.11"]
    try:
        text = locking.resolve(ROOT / "pyproject.toml", LOCK, *options)
    except UserError as error:
        sys.exit(f"error: {error}")
    if "--check" not in sys.argv[1:]:
        LOCK.write_text(text)
    elif text != LOCK.read_text():
        sys.exit("error: requirements.lock does not fit pyproject.toml; run `make lock` and commit it")


if __name__ == "__main__":
    main()
