"""The examples of docs/eval-sets.md are good ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from pipeline import eval_sets
from pipeline.eval_sets import importing
from pipeline.eval_sets.card import Card, Category
from pipeline.scorers import SCORERS

DOCS = (Path(__file__).parents[3] / "docs" / "eval-sets.md").read_text(encoding="utf-8")


def block(language: str, containing: str) -> str:
    [found] = [text for text in re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL) if containing in text]
    return str(found)


def test_the_card_and_the_items_make_a_set_without_mistakes(workspace: Path) -> None:
    folder = workspace / "eval_sets" / "my-desk"
    (folder / "documents").mkdir(parents=True)
    (folder / "documents" / "terms-of-sale.txt").write_text("You can send it back within 14 days.")
    card, items = block("yaml", "provenance"), block("json", "topic-001")
    # The card's system message and an item's own would be one too many; the example item has none.
    (folder / "card.yaml").write_text(card)
    (folder / "items.jsonl").write_text(items)
    assert eval_sets.problems("my-desk") == []
    assert len(eval_sets.read_items("my-desk")) == len(items.splitlines())
    assert yaml.safe_load(card)["categories"].keys() == {json.loads(line)["category"] for line in items.splitlines()}


def test_every_key_of_a_card_is_explained() -> None:
    explained = set(re.findall(r"`(?:categories\.<c>\.)?(\w+)`", DOCS)) | set(
        yaml.safe_load(block("yaml", "provenance"))
    )
    assert set(Card.model_fields) | set(Category.model_fields) <= explained | {"description"}


TARGETS = re.findall(r"^\| [^|]+ \| `(\w+)` \| `(\{.*?\})` \|$", DOCS, re.MULTILINE)


def test_every_line_of_the_table_of_scorers_is_looked_at() -> None:
    table = DOCS.partition("## Scorers")[2].partition("\n## ")[0]
    assert len(TARGETS) == table.count("\n|") - 2 > 5


@pytest.mark.parametrize(("scorer", "target"), TARGETS)
def test_the_example_of_a_target_is_a_good_one(scorer: str, target: str) -> None:
    assert SCORERS[scorer].target_problems(json.loads(target)) == []


def test_every_format_that_can_be_imported_is_explained() -> None:
    table = DOCS.partition("## Importing")[2]
    assert {name for name in importing.formats() if f"| `{name}" not in table} == set()
