from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline import installed

SOURCE = """
from collections import OrderedDict
OTHER = {"not": 1}
PLAIN = {"a": 1, "b": 2, **OTHER}
if True:
    PLAIN["late"] = 3
    PLAIN[OTHER] = 4
ORDERED = OrderedDict([("c", 1), ("d", 2)])
TYPED: dict = {"e": 1}
version: str | None = None
name = "x"
number = 3
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that cannot be imported, but read."""
    folder = tmp_path / "library_to_read"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError")
    (folder / "tables.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    return "library_to_read"


@pytest.mark.parametrize(
    ("table", "keys"),
    [("PLAIN", {"a", "b", "late"}), ("ORDERED", {"c", "d"}), ("TYPED", {"e"}), ("ABSENT", set()), ("name", set())],
)
def test_keys_of_a_table(library: str, table: str, keys: set[str]) -> None:
    assert installed.table_keys(library, "tables.py", table) == keys
    assert library not in sys.modules


def test_texts_that_a_file_sets(library: str) -> None:
    assert installed.constants(library, "tables.py") == {"version": None, "name": "x"}


def test_what_is_not_there_tells_nothing(library: str) -> None:
    assert installed.table_keys(library, "absent.py", "PLAIN") == set()
    assert installed.table_keys("no_such_library", "tables.py", "PLAIN") == set()
    assert installed.constants("no_such_library", "version.py") == {}


def test_the_lists_that_preflight_asks_are_where_it_looks() -> None:
    assert {"llama", "qwen2", "mistral"} <= installed.table_keys("gptqmodel", "models/auto.py", "MODEL_MAP")
    assert {"llama", "qwen2", "mistral"} <= installed.table_keys(
        "transformers", "models/auto/modeling_auto.py", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"
    )
