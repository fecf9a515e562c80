from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.scorers.numeric import last_number, score, target_problems


@pytest.mark.parametrize(
    ("output", "number"),
    [
        ("42", "42"),
        ("The answer is 42.", "42"),
        ("3 apples and 4 pears make 7", "7"),
        ("7 in all (3 + 4)", "4"),  # the last one, whatever it is
        ("1,234,567.50 EUR", "1234567.50"),
        ("1'234", "1234"),
        ("12\u00a0500", "12500"),
        ("12\u202f500", "12500"),
        ("1,2345", "2345"),  # no groups of three
        ("12 100", "100"),  # a plain space separates numbers
        ("choose 1,2", "2"),
        ("-5", "-5"),
        ("\u22125.5 °C", "-5.5"),
        ("it fell by -$1,200", "-1200"),
        ("x = - 5", "5"),  # as in a list with bullets
        ("10-5", "5"),
        ("10–15", "15"),
        ("2026-03-14", "14"),
        ("order T-48213", "48213"),
        ("(-3)", "-3"),
        ("f(x)-3", "3"),
        ("12.5%", "12.5"),
        ("12.5 %", "12.5"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("end.5", "5"),
        ("1.5e3", "1500"),
        ("2e-2", "0.02"),
        ("12 eggs", "12"),
        ("12kg", "12"),
        ("5 m²", "5"),
        ("part A4 costs 3", "3"),
        ("3 for part A4", "3"),
        ("共１２件", "12"),
        ("１，２３４．５元", "1234.5"),
        ("有100，200", "200"),  # between half-width digits it is punctuation
        ("余额为-5元", "-5"),
        ("余额为－５元", "-5"),
        ("3天-5天", "5"),
        ("3公斤-5公斤", "5"),
        ("第3章", "3"),
        ("٤٢", "42"),
    ],
)
def test_the_last_number_as_people_write_it(output: str, number: str) -> None:
    assert last_number(output) == Decimal(number)


@pytest.mark.parametrize("output", ["", "none", "A4", "v2x", "½", "x²", "三十"])
def test_output_without_a_number_scores_zero(output: str) -> None:
    assert last_number(output) is None
    assert score(output, {"value": 0}) == 0


@pytest.mark.parametrize(
    ("output", "target", "expected"),
    [
        ("12.50", {"value": 12.5}, 1),
        ("12.51", {"value": 12.5}, 0),
        ("0.3", {"value": 0.3}, 1),
        ("12.51", {"value": 12.5, "tolerance": 0.01}, 1),
        ("12.511", {"value": 12.5, "tolerance": 0.01}, 0),
        ("12.49", {"value": 12.5, "tolerance": 0.01}, 1),
        ("0.31", {"value": 0.3, "tolerance": 0.01}, 1),  # 0.31 - 0.3 is over 0.01 in binary
        ("102", {"value": 100, "relative": 0.02}, 1),
        ("97.9", {"value": 100, "relative": 0.02}, 0),
        ("-102", {"value": -100, "relative": 0.02}, 1),
        ("102", {"value": 100, "tolerance": 1, "relative": 0.02}, 1),  # the wider of the two
        ("103", {"value": 100, "tolerance": 3, "relative": 0.02}, 1),
        ("0", {"value": 0, "relative": 0.5}, 1),
        ("5", {"value": -5}, 0),
        ("9" * 400, {"value": 5}, 0),
    ],
)
def test_a_number_within_the_wider_tolerance_scores_one(output: str, target: dict[str, Any], expected: float) -> None:
    assert score(output, target) == expected


@given(st.integers(-(10**12), 10**12))
def test_every_number_is_found_with_thousands_separators_after_any_words(number: int) -> None:
    assert score(f"Together that makes {number:,}.", {"value": number}) == 1


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (12.5, "value"),
        ({"tolerance": 1}, "value"),
        ({"value": 1, "tolerence": 1}, "value"),
        ({"value": "12"}, "target.value must be a number"),
        ({"value": True}, "target.value must be a number"),
        ({"value": float("inf")}, "target.value must be a number"),
        ({"value": 1, "tolerance": -1}, "target.tolerance must be a number of at least 0, got -1"),
        ({"value": 1, "relative": None}, "target.relative must be a number of at least 0"),
    ],
)
def test_a_bad_target_is_named(target: Any, words: str) -> None:
    [problem] = target_problems(target)
    assert words in problem


def test_all_mistakes_of_a_target_come_at_once() -> None:
    assert len(target_problems({"value": None, "tolerance": -1, "relative": "x"})) == 3


def test_a_good_target_passes() -> None:
    assert target_problems({"value": -3, "tolerance": 0, "relative": 0.5}) == []
