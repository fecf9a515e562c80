from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.scorers.json_fields import score, target_problems

TARGET = {"name": "Greta Salonen", "quantity": 20}


@pytest.mark.parametrize(
    "output",
    [
        '{"name": "Greta Salonen", "quantity": 20}',
        '{"quantity": 20.0, "name": "  greta salonen ", "more": [1]}',
        '```json\n{"name": "Greta Salonen",\n "quantity": "20"}\n```\nAnything else?',
        'Sure: {"name": "Greta Salonen", "quantity": 20} and {"name": "x", "quantity": 1}',
        '{not this} but {"name": "Greta Salonen", "quantity": 20}',
    ],
)
def test_the_first_json_object_counts_wherever_it_stands(output: str) -> None:
    assert score(output, TARGET) == 1


@pytest.mark.parametrize(
    ("output", "share"),
    [
        ('{"name": "Greta Salonen"}', 0.5),
        ('{"name": "Greta Salonen", "quantity": 21}', 0.5),
        ('{"name": "Greta", "quantity": 21}', 0),
        ('{"name": "x", "quantity": 1} {"name": "Greta Salonen", "quantity": 20}', 0),
        ('{} {"name": "Greta Salonen", "quantity": 20}', 0),
        ('{"Name": "Greta Salonen", "quantity": 20}', 0.5),  # field names count as they are
        ('{"answer": {"name": "Greta Salonen", "quantity": 20}}', 0),
        ('{"name": ["Greta Salonen"], "quantity": {"quantity": 20}}', 0),
    ],
)
def test_the_score_is_the_share_of_right_fields(output: str, share: float) -> None:
    assert score(output, TARGET) == share


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Greta Salonen, 20",
        '{"name": "Greta Salonen", "quantity": 20',
        "{name: 'Greta Salonen', quantity: 20}",
        '["Greta Salonen", 20]',
        "{" * 300,
        "}{",
        '{"name": ' * 3000,
    ],
)
def test_output_without_a_readable_object_scores_zero(output: str) -> None:
    assert score(output, TARGET) == 0


def test_an_object_inside_an_unreadable_one_is_the_first_readable() -> None:
    assert score('{ {"name": "Greta Salonen", "quantity": 20} }', TARGET) == 1


@pytest.mark.parametrize(
    ("found", "wanted", "equal"),
    [
        (20, 20, True),
        (20.0, 20, True),
        ("20", 20, True),
        (" 20.0 ", 20, True),
        ("-3", -3, True),
        (20, "20", True),
        ("12,50", 12.5, False),
        ("20 pounds", 20, False),
        ("1_000", 1000, False),
        ("0x14", 20, False),
        ("", 0, False),
        (True, 1, False),
        (1, True, False),
        ("true", True, False),
        (True, True, True),
        (False, False, True),
        (False, 0, False),
        (None, None, True),
        (None, "", False),
        ("null", None, False),
        (False, None, False),
        (0, None, False),
        ("Ann", "ann", True),
        ("Straße", "STRASSE", True),
        ("2026-03-14", "2026-03-14", True),
        ("2026-3-14", "2026-03-14", False),
        ([20], 20, False),
    ],
)
def test_when_two_values_are_equal(found: Any, wanted: Any, equal: bool) -> None:
    assert score(json.dumps({"field": found}), {"field": wanted}) == float(equal)


def test_nan_equals_nothing() -> None:
    assert score('{"field": NaN}', {"field": 1}) == 0
    assert score('{"field": "nan"}', {"field": 1}) == 0


scalars = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=12)
targets = st.dictionaries(st.text(min_size=1, max_size=8), scalars, min_size=1, max_size=5)


@given(targets, st.text(alphabet=st.characters(exclude_characters="{"), max_size=20))
def test_a_target_written_as_json_scores_one_after_any_words(target: dict[str, Any], words: str) -> None:
    assert score(words + json.dumps(target), target) == 1


@pytest.mark.parametrize("target", [{}, [], "x", None, {"a": [1]}, {"a": {"b": 1}}])
def test_a_bad_target_is_named(target: Any) -> None:
    assert len(target_problems(target)) == 1


def test_each_bad_field_is_named() -> None:
    problems = target_problems({"a": [1], "b": 2, "c": {}})
    assert [problem.split("'")[1] for problem in problems] == ["a", "c"]


def test_two_signs_are_no_number_and_no_crash() -> None:
    assert score('{"field": "--5"}', {"field": 5}) == 0


def test_a_number_of_400_digits_scores_zero() -> None:
    assert score('{"field": ' + "9" * 400 + "}", {"field": 5}) == 0


def test_a_number_of_5000_digits_scores_zero() -> None:
    assert score('{"field": ' + "9" * 5000 + "}", {"field": 5}) == 0


def test_tracking_numbers_that_differ_in_the_last_digit_differ() -> None:
    assert score('{"tracking": "12345678901234567891"}', {"tracking": "12345678901234567890"}) == 0


def test_huge_digit_texts_that_differ_differ() -> None:
    assert score(json.dumps({"field": "1" * 400}), {"field": "2" * 400}) == 0
