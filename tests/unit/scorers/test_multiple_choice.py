from __future__ import annotations

from typing import Any

import pytest

from pipeline.scorers.multiple_choice import Picks, pick, score, target_problems


def test_raw_and_per_byte_picks_differ_where_the_likelier_choice_is_shorter() -> None:
    # -4/2 = -2.0 per byte, -6/12 = -0.5, -9/9 = -1.
    assert pick([-4.0, -6.0, -9.0], [2, 12, 9]) == Picks(raw=0, normalised=1)


def test_of_equally_likely_choices_the_first_is_picked() -> None:
    assert pick([-3.0, -2.0, -2.0], [6, 2, 2]) == Picks(raw=1, normalised=0)
    assert pick([-2.0, -1.0], [2, 1]) == Picks(raw=1, normalised=0)


@pytest.mark.parametrize(("logprobs", "sizes"), [([], []), ([-1.0], []), ([-1.0, -2.0], [1, 0])])
def test_choices_without_sizes_are_an_error(logprobs: list[float], sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="each choice needs one above 0"):
        pick(logprobs, sizes)


def test_the_picked_text_is_compared_as_it_is() -> None:
    target = {"choices": ["a red one", "Red"], "answer": "Red"}
    assert score("Red", target) == 1
    assert score("red", target) == 0
    assert score("a red one", target) == 0


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"choices": ["a", "b"]}, '{"choices": […], "answer": "one of them"}'),
        ({"choices": ["a"], "answer": "a"}, "at least two texts"),
        ({"choices": "ab", "answer": "a"}, "at least two texts"),
        ({"choices": ["a", "a"], "answer": "a"}, "twice"),
        ({"choices": ["a", "b"], "answer": "c"}, "'c' is not among its choices (a, b)"),
        (None, '{"choices": […], "answer": "one of them"}'),
    ],
)
def test_a_bad_target_is_named(target: Any, words: str) -> None:
    [problem] = target_problems(target)
    assert words in problem


def test_a_good_target_passes() -> None:
    assert target_problems({"choices": ["a", "A"], "answer": "A"}) == []
