from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline import params_text, store
from pipeline.errors import UserError

SHIPPED = Path(store.__file__).parents[1] / "params.yaml"
ENTRY = {"quantizer": "rtn", "engine": "transformers", "settings": {"bits": 4, "skip_modules": ["a.b", "no"]}}
HEAD = "# ours\nbaseline: fp16   # the one\n"


def lines(text: str) -> list[str]:
    return text.splitlines()


def put(text: str, after: str = "int4") -> str:
    """The text with the entry in; whatever stood there must still stand there, in its order."""
    found = params_text.with_variant(text, after, "new", ENTRY)
    assert yaml.safe_load(found)["variants"]["new"] == ENTRY
    added = lines(params_text.variant_text("new", ENTRY, indent(text)))
    at = lines(found).index(added[0])
    assert lines(found)[at : at + len(added)] == added
    assert lines(found)[:at] + lines(found)[at + len(added) :] == lines(text)
    return found


def indent(text: str) -> int:
    line = next(line for line in lines(text) if line.lstrip().startswith("int4"))
    return len(line) - len(line.lstrip())


def test_it_stands_behind_its_variant_with_comments_and_blank_lines_where_they_were() -> None:
    found = put(
        f"{HEAD}variants:\n  int4:\n    quantizer: rtn  # plain\n    engine: transformers\n    # of int4\n\n"
        "  # of int8\n  int8:\n    quantizer: x\n"
    )
    before, after = found.split(params_text.variant_text("new", ENTRY))
    assert before.endswith("    # of int4\n")
    assert after.startswith("\n  # of int8\n  int8:")


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}variants:\n  a: &a\n    quantizer: rtn\n  b: {{quantizer: x}}\n  int4: *a # as a\n  c: *a\n",
        f"{HEAD}variants:\n  int4:\n    quantizer: rtn\n\n# of quantize\nquantize:\n  timeout_s: 1\n",
        f"{HEAD}variants:\n  int4:\n    quantizer: rtn\n",
        f"{HEAD}variants:\n  int4:\n    quantizer: rtn",
        f"{HEAD}variants:\n    int4:\n        settings:\n            l:\n            - 1\n            - 2\nseed: 0\n",
        f"{HEAD}variants:\n  int4: {{quantizer: rtn, engine: x}}\n  int8:\n    quantizer: x\n",
        f"{HEAD}variants:\n  int4:\n    settings:\n      note: |\n        two\n        lines\n\nseed: 0\n",
        f"{HEAD}variants:\n  int4:\n    settings:\n      note: >-\n        # no comment\nseed: 0\n",
    ],
    ids=[
        "an alias",
        "section after",
        "at the end",
        "no last line break",
        "deeper",
        "braces",
        "block text",
        "folded text",
    ],
)
def test_other_layouts(text: str) -> None:
    put(text)


def test_all_in_braces_is_refused() -> None:
    with pytest.raises(UserError, match="cannot be put behind 'int4' in a file laid out as this one"):
        params_text.with_variant("variants: {int4: {quantizer: rtn}}\n", "int4", "new", ENTRY)


@pytest.mark.parametrize("variant", ["fp16", "int8", "int4-gptq", "int4-awq"])
def test_the_shipped_file_takes_one_behind_each_variant(variant: str) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    found: Any = yaml.safe_load(params_text.with_variant(text, variant, "new", ENTRY))
    names = list(found["variants"])
    assert names.index("new") == names.index(variant) + 1
