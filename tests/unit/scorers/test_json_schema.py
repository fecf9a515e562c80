from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from pipeline.scorers.json_schema import leaves, score, target_problems

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["customer", "items"],
    "properties": {
        "customer": {"type": "string"},
        "date": {"type": "string", "format": "date"},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
            },
        },
        "tags": {"type": "array"},
    },
}
VALUE: dict[str, Any] = {"customer": "Ann Lee", "items": [{"name": "cup", "count": 2}, {"name": "jug", "count": 1}]}
"""Five leaves: customer, items.0.name, items.0.count, items.1.name, items.1.count."""


def scored(found: Any, value: Any = VALUE, schema: dict[str, Any] = SCHEMA) -> float:
    return score(found if isinstance(found, str) else json.dumps(found), {"schema": schema, "value": value})


def test_the_value_itself_scores_one_wherever_it_stands() -> None:
    text = json.dumps(VALUE)
    for output in (text, f"Here you are:\n```json\n{text}\n```\nAnything else?", f"{text} {{}}"):
        assert scored(output) == 1


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # One value wrong: 4 equal of 5 found and 5 wanted, 2·4/(5+5).
        (VALUE | {"customer": "Bob"}, 8 / 10),
        # One item left out: 3 equal of 3 found and 5 wanted, 2·3/(3+5).
        (VALUE | {"items": VALUE["items"][:1]}, 6 / 8),
        # One leaf too much: 5 equal of 6 found and 5 wanted, 2·5/(6+5).
        (VALUE | {"date": "2026-03-14"}, 10 / 11),
        # Items in another order: names and counts are wrong by index, 2·1/(5+5).
        (VALUE | {"items": VALUE["items"][::-1]}, 2 / 10),
        # An empty list is a leaf: 1 equal (customer) of 2 found and 5 wanted.
        (VALUE | {"items": []}, 2 / 7),
        # Texts without regard to case and ends.
        (VALUE | {"customer": " ann lee "}, 1),
        ({"customer": "Bob", "items": []}, 0),
    ],
)
def test_f1_over_leaf_paths_worked_by_hand(found: Any, expected: float) -> None:
    assert scored(found) == pytest.approx(expected)


@pytest.mark.parametrize(
    "found",
    [
        "",
        "Ann Lee ordered 2 cups",
        {"customer": "Ann Lee"},
        VALUE | {"customer": None},
        VALUE | {"more": 1},
        VALUE | {"items": [{"name": "cup", "count": "2"}]},
        VALUE | {"date": "14 March"},  # formats count
        [VALUE],
        json.dumps(VALUE)[:-1],
        "[] " + json.dumps(VALUE),  # the first array or object counts
        "[" * 5000,
        '{"customer": ' * 3000,
    ],
)
def test_output_without_json_that_is_valid_under_the_schema_scores_zero(found: Any) -> None:
    assert scored(found) == 0


def test_empty_objects_and_arrays_equal_their_like_alone() -> None:
    schema: dict[str, Any] = {"type": "object"}
    assert scored({"a": [], "b": 1}, {"a": [], "b": 1}, schema) == 1
    assert scored({"a": {}, "b": 1}, {"a": [], "b": 1}, schema) == 0.5
    assert scored({"a": None, "b": 1}, {"a": [], "b": 1}, schema) == 0.5
    assert scored({}, {}, schema) == 1


def test_true_is_not_one_and_null_is_not_missing() -> None:
    schema: dict[str, Any] = {}
    assert scored({"a": True, "b": 2}, {"a": 1, "b": 2}, schema) == 0.5
    assert scored({"b": 2}, {"a": None, "b": 2}, schema) == pytest.approx(2 / 3)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_json_number_makes_no_json(number: str) -> None:
    schema: dict[str, Any] = {"type": "object"}
    assert scored(f'{{"a": {number}, "b": 2}}', {"a": 1, "b": 2}, schema) == 0
    assert scored('{"a": 5, "b": 2}', {"a": 1, "b": 2}, schema) == 0.5


def test_deep_json_under_a_schema_that_repeats_itself_scores_zero() -> None:
    schema: dict[str, Any] = {"$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}
    deep = '{"n":' * 900 + "1" + "}" * 900
    assert scored(deep, {"n": 1}, schema) == 0


def test_leaves_are_named_by_path() -> None:
    assert leaves({"a": [{"b": 1}, []], "c": {}}) == {("a", 0, "b"): 1, ("a", 1): [], ("c",): {}}
    assert leaves([]) == {(): []}


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"schema": {}}, '{"schema": {JSON Schema}, "value": …}'),
        ({"schema": True, "value": {}}, "target.schema must be"),
        ({"schema": {}, "value": "x"}, "target.value must be a JSON object or array"),
        ({"schema": {"type": "objekt"}, "value": {}}, "target.schema is not a JSON Schema at $.type: 'objekt'"),
        (
            {"schema": SCHEMA, "value": VALUE | {"items": [{"count": "2"}]}},
            "target.value is not valid under target.schema at $.items[0].count: '2' is not of type 'integer'",
        ),
        ({"schema": {"properties": {"a": {"$ref": "#/$defs/a"}}}, "value": {}}, "refers to '#/$defs/a'"),
        ({"schema": {"items": {"$ref": "https://example.com/s"}}, "value": []}, "nothing is fetched"),
    ],
)
def test_a_bad_target_is_named(target: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    [problem] = target_problems(target)
    assert words in problem


def test_every_mistake_of_the_value_is_named() -> None:
    assert len(target_problems({"schema": SCHEMA, "value": {"customer": 1, "items": 2}})) == 2


def test_a_good_target_passes() -> None:
    assert target_problems({"schema": SCHEMA, "value": VALUE}) == []
    local = {"$defs": {"a": {"type": "integer"}}, "items": {"$ref": "#/$defs/a"}}
    assert target_problems({"schema": local, "value": [1]}) == []
