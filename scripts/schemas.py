"""Write the JSON Schemas of docs/schema from the models, or with --check tell whether they are up to date."""

import sys
from pathlib import Path

from pipeline import schemas, store

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    old = [path for path, text in schemas.files() if not is_published(path, text)]
    if "--check" not in sys.argv[1:]:
        for path, text in schemas.files():
            store.write_text(ROOT / path, text)
    elif old:
        names = ", ".join(map(str, old))
        sys.exit(f"error: {names}: not what the models say; run `python scripts/schemas.py` and commit it")


def is_published(path: Path, text: str) -> bool:
    return (ROOT / path).is_file() and (ROOT / path).read_text(encoding="utf-8") == text


if __name__ == "__main__":
    main()
