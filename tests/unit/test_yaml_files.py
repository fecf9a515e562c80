from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from pipeline.errors import UserError
from pipeline.yaml_files import read_yaml, section_problems


class Wheel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    size: int
    colour: Literal["red", "blue"] = "red"


class Car(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    spare: Wheel
    wheels: dict[str, Wheel] = {}


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "file.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(folder: Path, content: str | bytes) -> str:
    path = write(folder, content)
    with pytest.raises(UserError) as caught:
        read_yaml(path)
    [problem] = caught.value.problems
    assert problem.startswith(f"{path}: ")
    return problem


def test_a_good_file_is_read(tmp_path: Path) -> None:
    content = "a: {b: [1, x]}\nc: &n {d: 1}\ne: *n\nü: ß\n"
    assert read_yaml(write(tmp_path, content)) == {"a": {"b": [1, "x"]}, "c": {"d": 1}, "e": {"d": 1}, "ü": "ß"}


def test_equal_keys_in_different_mappings_are_no_repetition(tmp_path: Path) -> None:
    assert read_yaml(write(tmp_path, "a: {x: 1}\nb: {x: 1}\n")) == {"a": {"x": 1}, "b": {"x": 1}}


@pytest.mark.parametrize(
    ("content", "line"), [("a: 1\nb: 2\na: 3\n", 3), ("a:\n  b:\n    c: 1\n    c: 1\n", 4), ("- {x: 1, x: 2}", 1)]
)
def test_a_repeated_key_is_named_with_its_line(tmp_path: Path, content: str, line: int) -> None:
    problem = refusal(tmp_path, content)
    assert "repeated key" in problem
    assert f"line {line}," in problem


@pytest.mark.parametrize("content", ["a: [1", "a:\n\tb: 1", "a: b: c", "a: \x01"])
def test_what_is_not_yaml_is_told_on_one_line(tmp_path: Path, content: str) -> None:
    problem = refusal(tmp_path, content)
    assert "not valid YAML" in problem
    assert "unicode string" not in problem
    assert "\n" not in problem


def test_python_objects_are_not_made(tmp_path: Path) -> None:
    assert "not valid YAML" in refusal(tmp_path, "a: !!python/object/apply:os.getcwd []")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml: not found$"):
        read_yaml(tmp_path / "none.yaml")


def test_every_mistake_of_a_section_has_its_place() -> None:
    raw = {"spare": {"sise": 3, "colour": "green"}, "wheels": {"left": {"size": "3"}}, "doors": 4}
    assert sorted(section_problems(Car, raw)) == [
        "doors: unknown key; allowed: spare, wheels",
        "spare.colour: must be 'red' or 'blue', got 'green'",
        "spare.sise: unknown key; did you mean 'size'?",
        "spare.size: missing",
        "wheels.left.size: must be a whole number, got '3'",
    ]


class Choices(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    experts: Annotated[int, Field(ge=1)] | Literal["all"] | None = None
    per_layer: dict[str, Annotated[int, Field(ge=1)] | Literal["all"]] = {}
    tyre: Wheel | str | None = None


@pytest.mark.parametrize(
    ("raw", "problems"),
    [
        ({"experts": 0}, ["experts: must be 1 or more or 'all', got 0"]),
        ({"experts": "al"}, ["experts: must be a whole number or 'all', got 'al'"]),
        ({"experts": "all", "per_layer": {"a": 2}}, []),
        (
            {"per_layer": {"a": 0, "b": -1}},
            [f"per_layer.{n}: must be 1 or more or 'all', got {v}" for n, v in (("a", 0), ("b", -1))],
        ),
        # Of a section the place inside it is worth a line of its own.
        ({"tyre": {"size": "x"}}, None),
    ],
)
def test_a_value_of_several_kinds_is_one_mistake(raw: dict[str, object], problems: list[str] | None) -> None:
    found = list(section_problems(Choices, raw))
    assert found == problems if problems is not None else "tyre.Wheel.size: must be a whole number, got 'x'" in found


class Sizes(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    wheel: Wheel | None = None
    counts: dict[str, int] | None = None
    colours: list[str] | None = Field(None, min_length=2)
    name: str | None = Field(None, min_length=1, pattern="^[a-z]*$")
    share: float | None = Field(None, gt=0, le=0.5)
    doors: int | None = Field(None, ge=2, lt=6)
    open: bool | None = None

    @field_validator("open")
    @classmethod
    def _closed(cls, value: bool) -> bool:
        if value:
            raise ValueError("close it first")
        return value


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("wheel", 3, "must be settings by name, as in `name: value`"),
        ("counts", ["a"], "must be values by name, as in `name: value`"),
        ("colours", "red", "must be a list"),
        ("colours", ["red"], "must have 2 or more entries"),
        ("name", ["a"], "must be a text"),
        ("name", "", "must have 1 or more characters"),
        ("name", "A", "must match the pattern ^[a-z]*$"),
        ("share", "0.1", "must be a number"),
        ("share", float("inf"), "must be a finite number"),
        ("share", 0, "must be more than 0"),
        ("share", 0.6, "must be 0.5 or less"),
        ("doors", 2.5, "must be a whole number"),
        ("doors", 1, "must be 2 or more"),
        ("doors", 6, "must be less than 6"),
        ("open", "yes", "must be true or false"),
        ("open", True, "close it first"),
    ],
)
def test_mistakes_are_told_in_the_words_of_the_file(field: str, value: object, words: str) -> None:
    assert list(section_problems(Sizes, {field: value})) == [f"{field}: {words}, got {value!r}"]


@pytest.mark.parametrize("version", ["1.0", "2", "2026-05-01", "true"])
def test_what_yaml_takes_for_another_kind_than_text_is_to_be_quoted(tmp_path: Path, version: str) -> None:
    raw = read_yaml(write(tmp_path, f"name: {version}\n"))
    assert list(section_problems(Sizes, raw)) == [f"name: must be a text in quotes, got {raw['name']!r}"]


def test_the_place_of_the_section_stands_before_that_of_the_mistake() -> None:
    assert list(section_problems(Wheel, {"size": 3, "color": 1}, "car.spare")) == [
        "car.spare.color: unknown key; did you mean 'colour'?"
    ]


def test_a_good_section_has_no_problems() -> None:
    assert list(section_problems(Car, {"spare": {"size": 3}})) == []


def test_a_file_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    assert "UTF-8" in refusal(tmp_path, b"a: caf\xe9\n")


def test_a_list_as_key_is_told(tmp_path: Path) -> None:
    assert "not valid YAML" in refusal(tmp_path, "? [a]\n: b\n")


def test_merge_keys_work_as_in_plain_yaml(tmp_path: Path) -> None:
    content = "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n"
    assert read_yaml(write(tmp_path, content))["b"] == {"x": 1, "y": 3}


def test_a_section_that_is_no_mapping_has_no_empty_place() -> None:
    [problem] = section_problems(Wheel, None)
    assert not problem.startswith(":")


def test_yes_and_no_are_texts_and_only_true_and_false_are_not(tmp_path: Path) -> None:
    content = "a: [yes, no, on, off, y, n, Yes, NO]\nb: [true, False, TRUE]\nc: falsey\n"
    assert read_yaml(write(tmp_path, content)) == {
        "a": ["yes", "no", "on", "off", "y", "n", "Yes", "NO"],
        "b": [True, False, True],
        "c": "falsey",
    }


class Fleet(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cars: list[Car] | None = None
    first: Wheel | None = None


def test_the_nearest_key_is_told_inside_lists_and_optional_sections() -> None:
    raw = {"cars": [{"spare": {"size": 1, "colur": "red"}}], "first": {"size": 1, "sizes": 2}}
    assert list(section_problems(Fleet, raw)) == [
        "cars.0.spare.colur: unknown key; did you mean 'colour'?",
        "first.sizes: unknown key; did you mean 'size'?",
    ]


def test_a_long_wrong_value_is_shown_in_part() -> None:
    [problem] = section_problems(Wheel, {"size": "x" * 1000})
    assert len(problem) < 300
    assert problem.endswith("…")
