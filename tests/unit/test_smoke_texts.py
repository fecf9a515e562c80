from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pipeline import fidelity_text, smoke_texts, store
from pipeline.artifact_records import Manifest
from pipeline.quality_records import Choice, FidelityText, ItemPrompt
from pipeline.tokenizer import Tokenizer

MANIFEST = cast(Manifest, SimpleNamespace())
TOKENIZER = cast(Tokenizer, None)


def item(name: str, category: str, tokens: int, **changes: Any) -> ItemPrompt:
    fields: dict[str, Any] = {
        "item_id": name,
        "category": category,
        "critical": False,
        "scorer": "regex",
        "target": {"pattern": "x"},
        "max_new_tokens": 8,
        "prompt": name,
        "token_ids": list(range(tokens)),
        "prompt_sha256": store.sha256_text(name),
    }
    return ItemPrompt(**(fields | changes))


def picked(items: list[ItemPrompt], count: int) -> list[str]:
    return [item.item_id for item in smoke_texts.pick(items, count)]


def test_the_shortest_of_each_category_come_in_turn() -> None:
    items = [item("a-9", "a", 9), item("a-3", "a", 3), item("a-4", "a", 4), item("b-7", "b", 7), item("c-5", "c", 5)]
    assert picked(items, 4) == ["a-3", "c-5", "b-7", "a-4"]
    assert picked(items, 9) == ["a-3", "c-5", "b-7", "a-4", "a-9"]


def test_items_that_do_not_fit_are_not_asked() -> None:
    assert picked([item("long", "a", 3, over_context=True), item("short", "a", 4)], 2) == ["short"]


def test_items_with_choices_are_asked_only_where_there_are_no_others() -> None:
    choices = [Choice(text="A", token_ids=[1], bytes=1)]
    chosen = item("chosen", "a", 3, choices=choices)
    assert picked([chosen, item("free", "a", 9)], 2) == ["free"]
    assert picked([chosen], 2) == ["chosen"]


def test_texts_are_the_first_short_windows_of_the_fidelity_text(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def tokenize(*given: Any) -> FidelityText:
        """Windows that hold fewer tokens of the text than asked for, since each begins with the start token."""
        asked.append(given)
        windows = [[0, number] for number in range(4)]
        return FidelityText(
            tokenizer_sha256="a" * 64, text="t", tokens=6, window_tokens=2, windows=windows, text_sha256="b" * 64
        )

    monkeypatch.setattr(fidelity_text, "tokenize", tokenize)
    items = [item("one", "a", 2)]
    found = smoke_texts.make("t", 3, 2, 5, items, TOKENIZER, MANIFEST)
    assert asked == [("t", 6, 2, TOKENIZER, MANIFEST)]
    assert (found.text, found.windows, found.prompts) == ("t", [[0, 0], [0, 1], [0, 2]], [[0, 1]])
    other = smoke_texts.make("t", 2, 2, 5, items, TOKENIZER, MANIFEST)
    assert other.sha256 != found.sha256
