"""What a count of 0 rules out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthetic import Build

from pipeline.metrics.exposure import Exposed, answers, critical_passed_before, passed_before


@pytest.mark.parametrize(("count", "share"), [(4, "75"), (30, "10"), (48, "6.25"), (300, "1"), (10_000, "0.03")])
def test_three_by_n(count: int, share: str):
    assert Exposed(count, count, "items").none_seen() == f"with 95 % confidence the share is below {share} %"


@pytest.mark.parametrize("count", [30, 48, 300])
def test_the_rule_of_three_holds_with_95_per_cent(count: int):
    assert (1 - 3 / count) ** count < 0.05
    assert (1 - 2.5 / count) ** count > 0.05


def test_few_items_say_nothing():
    assert Exposed(3, 3, "items").none_seen() == "too few to rule anything out"
    assert Exposed(0, 0, "items").none_seen() == "so that says nothing"
    assert str(Exposed(0, 0, "items")) == "of no items"


def test_items_of_one_document_count_once():
    assert Exposed(40, 10, "items").none_seen().endswith("below 30 %")
    assert str(Exposed(40, 10, "items")) == "of 40 items"


def test_only_what_the_baseline_passed_can_be_lost(build: Build):
    items = [
        item.model_copy(update={"critical": place < 3, "cluster": "a" if place < 2 else None})
        for place, item in enumerate(build.items([1, 1, 0, 1]))
    ]
    base = replace(build.evidence(), quality=(build.scored("fp16", items),))
    ours = build.evidence("int8", [0, 0, 1, 1], baseline=base)
    assert critical_passed_before(ours) == Exposed(2, 1, "critical items that fp16 passed")
    assert passed_before(ours) == Exposed(3, 2, "items that fp16 passed")
    assert answers(ours) == Exposed(4, 4, "answers")
    assert critical_passed_before(base) is None


def test_equal_names_in_two_eval_sets_are_two(build: Build):
    """Item ids and documents are unique in one set only."""
    items = build.items([1, 1, 1])
    two = replace(build.evidence(), quality=tuple(build.scored("fp16", items, name) for name in ("one", "other")))
    ours = replace(build.evidence("int8", [0, 1, 1]), baseline=two)
    assert passed_before(ours) == Exposed(6, 6, "items that fp16 passed")
    assert answers(two) == Exposed(6, 6, "answers")
