"""Foreign files for tests of the importers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import plugins
from pipeline.errors import UserError
from pipeline.eval_sets.importers import Draft, Options
from pipeline.eval_sets.importing import PACKAGE


def write(name: str, content: Any) -> str:
    """Write a file into the working directory: text as it is, a list as JSON lines. Returns its name."""
    if not isinstance(content, str):
        content = "".join(json.dumps(row) + "\n" for row in content)
    Path(name).write_text(content, encoding="utf-8")
    return name


def read(source_format: str, name: str, **options: Any) -> Draft:
    importer = plugins.load(PACKAGE, source_format)
    draft = importer.read(name, Options(**options))
    assert isinstance(draft, Draft)
    return draft


def refusals(source_format: str, name: str, **options: Any) -> list[str]:
    with pytest.raises(UserError) as caught:
        read(source_format, name, **options)
    return list(caught.value.problems)


def asked(draft: Draft) -> list[tuple[str, str, Any, Any]]:
    """Category, scorer, question and target of each item; a question of one text as such."""
    return [
        (item.category, item.scorer, item.question.get("prompt", item.question), item.target) for item in draft.items
    ]
