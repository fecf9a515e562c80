from __future__ import annotations

import pytest

from pipeline import batches
from pipeline.batches import Batch
from pipeline.quality_records import Choice, ItemPrompt


def item(name: str, tokens: list[int], limit: int = 4, cluster: str | None = None, choices: int = 0) -> ItemPrompt:
    return ItemPrompt(
        item_id=name,
        category="name",
        critical=False,
        cluster=cluster,
        scorer="contains_any",
        target={"any_of": ["red"]},
        max_new_tokens=limit,
        prompt="Which colour?",
        token_ids=tokens,
        prompt_sha256="0" * 64,
        choices=[Choice(text=str(number), token_ids=[number], bytes=1) for number in range(choices)],
    )


def names(found: list[Batch]) -> list[list[str]]:
    return [[item.item_id for item in batch.items] for batch in found]


def test_batches_hold_items_of_one_answer_limit_by_length() -> None:
    items = [
        item("a", [1] * 9),
        item("b", [2] * 3, limit=8),
        item("c", [3]),
        item("d", [4] * 5),
        item("e", [5] * 2),
    ]
    assert names(batches.plan(items, 3)) == [["c", "e", "d"], ["a"], ["b"]]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_every_item_is_in_one_batch_whatever_the_size_and_order(size: int) -> None:
    items = [
        item(f"i{n}", list(range(n % 4 + 2)), 4 + n % 2, cluster=f"c{n % 3}", choices=2 * (n % 5 == 0))
        for n in range(23)
    ]
    found = batches.plan(items, size)
    assert sorted(name for part in names(found) for name in part) == sorted(item.item_id for item in items)
    assert all(1 <= len(batch.items) <= size for batch in found)
    assert all(len({item.max_new_tokens for item in batch.items}) == 1 for batch in found)
    assert all(len({bool(item.choices) for item in batch.items}) == 1 for batch in found)
    assert found == batches.plan(items[::-1], size)


def test_no_items_make_no_batches() -> None:
    assert batches.plan([], 3) == []


def test_what_all_prompts_begin_with_is_shared_and_leaves_each_prompt_a_token() -> None:
    assert batches.common_prefix([[1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 3, 4, 4]]) == (1, 2, 3)
    assert batches.common_prefix([[1, 2, 3], [1, 2, 3, 5]]) == (1, 2)
    assert batches.common_prefix([[1, 2], [2, 2]]) == ()
    assert batches.common_prefix([[1, 2, 3]]) == ()
    assert [batch.shared for batch in batches.plan([item("a", [7, 8, 1]), item("b", [7, 8, 2])], 1)] == [(7, 8)] * 2


def test_items_of_a_long_document_are_asked_apart_with_the_document_shared() -> None:
    head, one, other = [9, 9], [1] * batches.LONG_PREFIX, [2] * batches.LONG_PREFIX
    items = [
        item("a", [*head, *one, 5], cluster="one"),
        item("b", [*head, *other, 5], cluster="other"),
        item("c", [*head, *one, 6, 6], cluster="one"),
        item("d", [*head, *other, 6], cluster="other"),
        item("e", [*head, 3, 3]),
        item("f", [*head, 4, 4]),
    ]
    found = batches.plan(items, 4)
    assert names(found) == [["a", "c"], ["b", "d"], ["e", "f"]]
    assert [batch.shared for batch in found] == [(*head, *one), (*head, *other), tuple(head)]


def test_a_short_conversation_is_not_asked_apart() -> None:
    items = [item("a", [1, 1, 1], cluster="x"), item("b", [1, 1, 2], cluster="x"), item("c", [1, 3, 3])]
    assert names(batches.plan(items, 4)) == [["a", "b", "c"]]


def test_items_with_choices_are_apart_from_those_without() -> None:
    found = batches.plan([item("a", [1, 2], choices=2), item("b", [1, 3]), item("c", [1, 4], choices=3)], 4)
    assert names(found) == [["b"], ["a", "c"]]
    assert [batch.chooses for batch in found] == [False, True]


def test_a_sample_is_asked_alone_spread_over_all_batches() -> None:
    planned = batches.plan([item(f"i{n}", [0, *range(n)], cluster=None) for n in range(1, 10)], 4)
    assert names(planned) == [["i1", "i2", "i3", "i4"], ["i5", "i6", "i7", "i8"], ["i9"]]
    found = batches.alone(planned, 2)
    assert names(found) == [["i3"], ["i7"]]
    assert all(batch.alone and batch.shared == planned[0].shared for batch in found)
    # i9 was alone already.
    assert names(batches.alone(planned, 100)) == [[f"i{n}"] for n in range(1, 9)]
    assert batches.alone(planned, 0) == []
    assert batches.alone(batches.plan([item("a", [1])], 4), 5) == []
