from __future__ import annotations

from typing import Any

import pytest

from pipeline.scorers import SCORERS
from pipeline.scorers.text import choice, contains, regex


def chosen(output: str, answer: str, *choices: str) -> float:
    return choice(output, {"answer": answer, "choices": list(choices)})


@pytest.mark.parametrize(
    ("output", "score"),
    [
        ("yes", 1),
        ("YES.", 1),
        ("  Yes, it is.", 1),
        ("no", 0),
        ("Yesterday it was", 0),  # "yes" is no word of its own
        ("eyes", 0),
        ("", 0),
        ("perhaps", 0),
    ],
)
def test_choice_wants_the_answer_as_whole_words_in_any_case(output: str, score: float) -> None:
    assert chosen(output, "yes", "yes", "no") == score


def test_choice_takes_the_first_choice_named_whatever_the_order_of_the_list() -> None:
    output = "No. Some would say yes, but no."
    for choices in (("yes", "no"), ("no", "yes")):
        assert chosen(output, "no", *choices) == 1
        assert chosen(output, "yes", *choices) == 0


def test_choice_prefers_the_longer_of_two_that_begin_at_one_place() -> None:
    for choices in (("refund", "refund denied"), ("refund denied", "refund")):
        assert chosen("Refund denied, sorry", "refund denied", *choices) == 1
        assert chosen("Refund denied, sorry", "refund", *choices) == 0
        assert chosen("Refund it", "refund", *choices) == 1


def test_choice_inside_a_longer_choice_does_not_win_by_beginning_later() -> None:
    assert chosen("not applicable", "applicable", "applicable", "not applicable") == 0
    assert chosen("not applicable", "not applicable", "applicable", "not applicable") == 1


def test_choice_fits_any_white_space_and_takes_signs_literally() -> None:
    assert chosen("gift\n  card", "gift card", "gift card", "cash") == 1
    assert chosen("giftcard", "gift card", "gift card", "cash") == 0
    assert chosen("We use C++ here", "C++", "C++", "C#") == 1
    assert chosen("We use C here", "C++", "C++", "C#") == 0
    assert chosen("axb", "a.b", "a.b", "c") == 0


@pytest.mark.parametrize(
    ("output", "score"),
    [
        ("It is the Foot.", 1),
        ("the base part", 1),
        ("football", 0),
        ("barefoot", 0),
        ("foot_1", 0),
        ("(foot)", 1),
        ("", 0),
    ],
)
def test_contains_wants_any_phrase_as_whole_words(output: str, score: float) -> None:
    assert contains(output, {"any_of": ["foot", "base  part"]}) == score


@pytest.mark.parametrize(
    ("phrase", "output", "score"),
    [("8", "8 pounds", 1), ("8", "18 pounds", 0), ("8", "8.50", 1), ("£8", "costs £8", 1), ("Größe", "GRÖSSE", 0)],
)
def test_contains_on_numbers_and_letters_beyond_ascii(phrase: str, output: str, score: float) -> None:
    assert contains(output, {"any_of": [phrase]}) == score


@pytest.mark.parametrize(
    ("pattern", "output", "score"),
    [
        ("[A-Z]{2}-\\d{4}", "AB-1234", 1),
        ("[A-Z]{2}-\\d{4}", "  AB-1234\n", 1),
        ("[A-Z]{2}-\\d{4}", "Code: AB-1234", 0),
        ("[A-Z]{2}-\\d{4}", "AB-12345", 0),
        ("[A-Z]{2}-\\d{4}", "ab-1234", 0),
        ("Dear .*Regards", "Dear Ann,\nthanks.\nRegards", 1),
        ("Dear .*Regards", "Dear Ann,\nthanks.\nRegards\nP.S. more", 0),
        ("[^\\n]*", "one\ntwo", 0),
        ("yes|no", "yes indeed", 0),
        ("", "", 1),
    ],
)
def test_regex_must_match_the_whole_trimmed_output(pattern: str, output: str, score: float) -> None:
    assert regex(output, {"pattern": pattern}) == score


@pytest.mark.parametrize(
    ("scorer", "target", "words"),
    [
        ("choice", "red", '{"answer": …, "choices": […]}'),
        ("choice", {"answer": "red"}, '{"answer": …, "choices": […]}'),
        ("choice", {"answer": "red", "choices": ["red", "blue"], "more": 1}, '{"answer": …, "choices": […]}'),
        ("choice", {"answer": "red", "choices": ["red"]}, "at least two"),
        ("choice", {"answer": "red", "choices": "red blue"}, "at least two"),
        ("choice", {"answer": "red", "choices": ["red", ""]}, "at least two texts"),
        ("choice", {"answer": 1, "choices": [1, 2]}, "at least two texts"),
        ("choice", {"answer": "red", "choices": ["red", "blue", "red"]}, "twice"),
        ("choice", {"answer": "green", "choices": ["red", "blue"]}, "'green' is not among its choices (red, blue)"),
        ("contains", {"any_of": []}, "at least one text"),
        ("contains", {"any_of": "red"}, "at least one text"),
        ("contains", {"any_of": [" "]}, "at least one text"),
        ("contains", ["red"], "any_of"),
        ("regex", {"pattern": "("}, "not a regular expression"),
        ("regex", {"pattern": 3}, "pattern"),
        ("regex", "red", "pattern"),
    ],
)
def test_a_bad_target_is_named(scorer: str, target: Any, words: str) -> None:
    [problem] = SCORERS[scorer].target_problems(target)
    assert words in problem


@pytest.mark.parametrize(
    ("scorer", "target"),
    [
        ("choice", {"answer": "red", "choices": ["red", "blue"]}),
        ("contains", {"any_of": ["red"]}),
        ("regex", {"pattern": "(?i:red)"}),
    ],
)
def test_a_good_target_passes(scorer: str, target: Any) -> None:
    assert SCORERS[scorer].target_problems(target) == []


def test_choices_that_no_output_can_tell_apart_are_a_mistake() -> None:
    assert SCORERS["choice"].target_problems({"answer": "yes", "choices": ["Yes", "yes"]})
