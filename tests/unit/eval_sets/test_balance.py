from __future__ import annotations

import random
from typing import Any

import pytest

from pipeline.eval_sets import Item, balance


def items(*asked: tuple[list[str], str], category: str = "pick") -> list[Item]:
    return [
        Item(id=f"{category}-{n}", category=category, prompt="?", target={"choices": choices, "answer": answer})
        for n, (choices, answer) in enumerate(asked)
    ]


def test_the_tail_is_that_of_the_binomial_distribution() -> None:
    """By hand: of 3 fair throws at least 2 heads is 3/8 + 1/8; of 4 at chance 0.25 all is 1/256."""
    assert balance._upper_tail(2, 3, 0.5) == pytest.approx(0.5)
    assert balance._upper_tail(4, 4, 0.25) == pytest.approx(1 / 256)
    assert balance._upper_tail(0, 5, 0.3) == pytest.approx(1)


def test_an_option_far_too_often_right_is_found_with_what_chance_would_give() -> None:
    """20 items with 2 options: 10 expected of each; 18 right has a chance of 211 / 2**20, or 0.0002."""
    asked = [(["yes", "no"], "yes")] * 18 + [(["yes", "no"], "no")] * 2
    [skew] = balance.skews(asked)
    assert (skew.option, skew.right, skew.offered, skew.expected) == ("yes", 18, 20, 10)


@pytest.mark.parametrize(("yes", "no"), [(10, 10), (13, 7), (15, 5)])
def test_what_chance_gives_is_no_skew(yes: int, no: int) -> None:
    """15 of 20 has a chance of 0.02: not rare enough for two options."""
    assert balance.skews([(["yes", "no"], "yes")] * yes + [(["yes", "no"], "no")] * no) == []


def test_a_slight_surplus_in_many_items_is_no_skew() -> None:
    """600 of 1000 is improbable, but 1.2 times as often as by chance misleads nobody."""
    assert balance.skews([(["yes", "no"], "yes")] * 600 + [(["yes", "no"], "no")] * 400) == []


def test_chances_of_lists_of_different_length_add_up() -> None:
    asked: list[Any] = [(["a", "b"], "a")] * 6 + [(["a", "b", "c"], "a")] * 6
    [skew] = balance.skews(asked)
    assert skew.option == "a"
    assert skew.expected == pytest.approx(6 / 2 + 6 / 3)


def test_random_answers_hardly_ever_give_a_warning() -> None:
    """The rate is below RARE, so that of 300 sets at most a few are told."""
    told = 0
    for seed in range(300):
        draw = random.Random(seed)
        told += bool(balance.skews([(list("abcd"), draw.choice("abcd")) for _ in range(60)]))
    assert told <= 8


def test_labels_and_places_are_told_by_category() -> None:
    labels = items(*[(["yes", "no"], "yes")] * 20)
    [problem] = balance.problems(labels)
    assert problem == (
        "category pick: 'yes' is the answer of 20 of the 20 items that offer it, 10 by chance; a model that always "
        "says so would look good. Balance the answers"
    )


def test_the_place_of_the_answer_is_told_where_choices_differ() -> None:
    asked = [([f"b{n}", f"c{n}", f"a{n}"], f"a{n}") for n in range(12)]
    [problem] = balance.problems(items(*asked))
    assert problem.startswith("category pick: the third choice is the answer of 12 of 12 items, 4 by chance")


def test_a_fixed_list_has_no_places_beside_its_labels() -> None:
    """They would tell the same twice."""
    assert len(list(balance.problems(items(*[(["yes", "no"], "no")] * 20)))) == 1


def test_items_without_choices_are_left_alone() -> None:
    free = [Item(id=f"name-{n}", category="name", prompt="?", target={"any_of": ["red"]}) for n in range(20)]
    assert list(balance.problems(free)) == []


def test_categories_are_looked_at_apart() -> None:
    """Each leans the other way, so that together they would look balanced."""
    mixed = items(*[(["yes", "no"], "yes")] * 20) + items(*[(["yes", "no"], "no")] * 20, category="other")
    assert len(list(balance.problems(mixed))) == 2
