from __future__ import annotations

from typing import Any

import pytest

from pipeline.scorers import SCORERS
from pipeline.scorers.text import choice, contains_all, contains_any, exact, regex


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
def test_contains_any_wants_any_phrase_as_whole_words(output: str, score: float) -> None:
    assert contains_any(output, {"any_of": ["foot", "base  part"]}) == score


@pytest.mark.parametrize(
    ("phrase", "output", "score"),
    [("8", "8 pounds", 1), ("8", "18 pounds", 0), ("8", "8.50", 1), ("£8", "costs £8", 1), ("Größe", "GRÖSSE", 0)],
)
def test_contains_any_on_numbers_and_letters_beyond_ascii(phrase: str, output: str, score: float) -> None:
    assert contains_any(output, {"any_of": [phrase]}) == score


@pytest.mark.parametrize(
    ("output", "score"),
    [
        ("14 days", 1),
        (" 14  Days.\n", 1),
        ("14 days .", 1),
        ("It is 14 days", 0),
        ("14 days..", 0),  # one final period is ignored, an ellipsis is not
        ("14days", 0),
        ("", 0),
    ],
)
def test_exact_wants_the_whole_output_but_for_case_white_space_and_a_final_period(output: str, score: float) -> None:
    assert exact(output, {"answer": "14 days"}) == score
    assert exact(output, {"any_of": ["two weeks", "14 days."]}) == score


@pytest.mark.parametrize(("output", "score"), [("共8件。", 1), ("共 8 件", 1), ("共18件", 0), ("一共8件", 0)])
def test_exact_ignores_white_space_beside_chinese_and_its_period(output: str, score: float) -> None:
    assert exact(output, {"answer": "共 8 件"}) == score


def test_choice_finds_chinese_answers_anywhere_and_the_longer_of_two() -> None:
    assert chosen("这属于物流问题，不是发票。", "物流", "发票", "物流") == 1
    assert chosen("不可以", "可以", "可以", "不可以") == 0
    assert chosen("不可以", "不可以", "可以", "不可以") == 1


WARNINGS = {"all_of": ["unplug", ["glove", "gloves"], "1.9公斤"], "none_of": ["is harmless", "无害"]}


@pytest.mark.parametrize(
    ("output", "score"),
    [
        ("Unplug it, wear gloves, 重1.9 公斤", 1),
        ("Unplug it and put on one glove", 2 / 3),
        ("unplugged", 0),
        ("Wear GLOVES", 1 / 3),
        ("", 0),
        ("Unplug it, wear gloves, 1.9公斤. It  is harmless.", 0),
        ("unplug 完全无害", 0),
        ("unplug, this harmless thing", 1 / 3),
    ],
)
def test_contains_all_gives_the_share_of_entries_met_by_any_phrasing_unless_one_is_banned(
    output: str, score: float
) -> None:
    assert contains_all(output, WARNINGS) == pytest.approx(score)


def test_contains_all_without_banned_phrases() -> None:
    assert contains_all("a b", {"all_of": ["a", "c"]}) == 0.5


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
        ("contains_any", {"any_of": []}, "at least one text"),
        ("contains_any", {"any_of": "red"}, "at least one text"),
        ("contains_any", {"any_of": [" "]}, "at least one text"),
        ("contains_any", ["red"], "any_of"),
        ("exact", {"answer": ""}, "answer must be a text"),
        ("exact", {"answer": 3}, "answer must be a text"),
        ("exact", {"any_of": []}, "at least one text"),
        ("exact", {"answer": "a", "any_of": ["b"]}, '{"answer": "…"} or {"any_of": […]}'),
        ("exact", {}, '{"answer": "…"} or {"any_of": […]}'),
        ("exact", None, '{"answer": "…"} or {"any_of": […]}'),
        ("contains_all", {"none_of": ["a"]}, "all_of"),
        ("contains_all", {"all_of": []}, "at least one entry"),
        ("contains_all", {"all_of": "unplug"}, "at least one entry"),
        ("contains_all", {"all_of": ["a", []]}, "at least one entry"),
        ("contains_all", {"all_of": ["a", ["b", " "]]}, "at least one entry"),
        ("contains_all", {"all_of": ["a", {"b": "c"}]}, "at least one entry"),
        ("contains_all", {"all_of": ["a"], "none_of": "b"}, "none_of must be a list"),
        ("contains_all", {"all_of": ["a"], "more": []}, "all_of"),
        ("contains_all", {"all_of": ["not safe", "a"], "none_of": ["safe"]}, "'not safe' can never be met"),
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
        ("contains_any", {"any_of": ["red"]}),
        ("exact", {"answer": "red"}),
        ("exact", {"any_of": ["red", "blue"]}),
        ("contains_all", {"all_of": ["red", ["blue", "azure"]]}),
        ("contains_all", {"all_of": [["not safe", "dangerous"]], "none_of": ["safe"]}),
        ("contains_all", {"all_of": ["red"], "none_of": []}),
        ("regex", {"pattern": "(?i:red)"}),
    ],
)
def test_a_good_target_passes(scorer: str, target: Any) -> None:
    assert SCORERS[scorer].target_problems(target) == []


def test_two_mistakes_of_a_target_come_at_once() -> None:
    assert len(SCORERS["contains_all"].target_problems({"all_of": [], "none_of": [1]})) == 2


def test_choices_that_no_output_can_tell_apart_are_a_mistake() -> None:
    assert SCORERS["choice"].target_problems({"answer": "yes", "choices": ["Yes", "yes"]})
