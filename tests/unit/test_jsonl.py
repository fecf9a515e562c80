from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.workspace import write_lines

from pipeline import jsonl
from pipeline.errors import UserError


def check(row: dict[str, Any]) -> list[str]:
    return [f"{key} is bad" for key in row if key.startswith("bad")]


def problems(folder: Path, lines: list[Any]) -> list[str]:
    """Problems of a file `f.jsonl` with these lines, without its folder."""
    path = folder / "f.jsonl"
    write_lines(path, lines)
    return [problem.removeprefix(f"{folder}/") for problem in jsonl.problems(path, check)]


def test_a_good_file_has_no_problems_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    assert problems(tmp_path, [{"id": "a"}, "", "   ", {"id": "b"}]) == []


def test_every_bad_line_is_named_with_its_number(tmp_path: Path) -> None:
    lines = [{"id": "a"}, "{oops", "", "[1]", '"text"', {"id": "b", "bad1": 1, "bad2": 1}, {"id": "a"}, "null"]
    assert problems(tmp_path, lines) == [
        "f.jsonl:2: not JSON (Expecting property name enclosed in double quotes at column 2)",
        "f.jsonl:4: expected a JSON object, got list",
        "f.jsonl:5: expected a JSON object, got str",
        "f.jsonl:6: bad1 is bad",
        "f.jsonl:6: bad2 is bad",
        "f.jsonl:7: id 'a' was already used in line 1",
        "f.jsonl:8: expected a JSON object, got NoneType",
    ]


def test_a_third_use_of_an_id_names_the_first(tmp_path: Path) -> None:
    found = problems(tmp_path, [{"id": "x"}, {"id": "a"}, {"id": "a"}, {"id": "a"}])
    assert found == [f"f.jsonl:{line}: id 'a' was already used in line 2" for line in (3, 4)]


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_an_empty_file_is_a_mistake(tmp_path: Path, lines: list[str]) -> None:
    assert problems(tmp_path, lines) == ["f.jsonl: empty; it needs at least one line"]


def test_a_missing_file_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    assert jsonl.problems(path, check) == [f"{path}: missing"]


def test_a_file_that_is_not_utf8_is_named_with_the_line(tmp_path: Path) -> None:
    assert problems(tmp_path, [{"id": "a"}, b'{"id": "caf\xe9"}']) == [
        "f.jsonl:2: not UTF-8 (invalid continuation byte)"
    ]


def test_rows_come_back_in_order_with_targets_of_different_types(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "target": {"x": [1, None]}, "text": "über\nzwei Zeilen"},
        {"id": "b", "target": ["y"], "only": True},
        {"id": "c", "target": 3},
    ]
    write_lines(tmp_path / "f.jsonl", [rows[0], "", *rows[1:]])
    assert jsonl.read(tmp_path / "f.jsonl") == rows


def test_an_edited_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    write_lines(path, [{"id": "a"}])
    assert jsonl.read(path) == [{"id": "a"}]
    write_lines(path, [{"id": "b"}])
    assert jsonl.read(path) == [{"id": "b"}]


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"id": "a"}\r\n{"id": "b"}\r\n')
    assert jsonl.problems(path, check) == []
    assert jsonl.read(path) == [{"id": "a"}, {"id": "b"}]


def test_require_raises_only_when_something_was_found(tmp_path: Path) -> None:
    jsonl.require(tmp_path, [])
    with pytest.raises(UserError) as caught:
        jsonl.require(tmp_path, ["one", "two"])
    assert caught.value.problems == ("one", "two")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_a_text_may_hold_an_unusual_line_separator(tmp_path: Path, separator: str) -> None:
    assert problems(tmp_path, [f'{{"id": "a{separator}b"}}', {"id": "c"}]) == []


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert problems(tmp_path, [b'\xef\xbb\xbf{"id": "a"}']) == []


def test_a_number_of_5000_digits_is_told_with_its_line(tmp_path: Path) -> None:
    assert problems(tmp_path, ['{"id": ' + "9" * 5000 + "}"])[0].startswith("f.jsonl:1: ")
