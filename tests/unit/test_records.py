from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipeline import quality_records, records
from pipeline.errors import UserError
from pipeline.quality_records import FinishReason, ItemResult
from pipeline.readings import SpeedRecord
from pipeline.records import Outcome, Reading, Status, known, missing


def item(**changes: Any) -> ItemResult:
    fields: dict[str, Any] = {
        "item_id": "a",
        "category": "c",
        "critical": False,
        "prompt_sha256": "0" * 64,
        "prompt": "Which?",
        "target": {"any_of": ["x"]},
        "output": "x",
        "score": 1.0,
        "passed": True,
        "finish_reason": FinishReason.STOP,
        "output_tokens": 1,
    }
    return ItemResult(**(fields | changes))


def test_a_reading_is_a_number_or_null_with_a_reason() -> None:
    assert known(0.0) == Reading(value=0.0)
    assert missing("no GPU") == Reading(value=None, reason="no GPU")
    for value, reason in ((None, None), (1.0, "why")):
        with pytest.raises(ValidationError, match="never both, never neither"):
            Reading(value=value, reason=reason)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reading_is_finite(value: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        known(value)


def test_any_status_but_ok_has_a_reason() -> None:
    assert Outcome(variant="a", status=Status.OK).reason is None
    assert Outcome(variant="a", status=Status.FAILED, reason="died").reason == "died"
    for status, reason in ((Status.OK, "why"), (Status.FAILED, None), (Status.INVALID, None)):
        with pytest.raises(ValidationError, match="status ok has no reason"):
            Outcome(variant="a", status=status, reason=reason)


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan])
def test_a_score_lies_between_0_and_1(score: float) -> None:
    with pytest.raises(ValidationError):
        item(score=score)


def test_a_record_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    record = SpeedRecord(variant="a", status=Status.INVALID, reason="lengths differ", measured_s=1.25, seed=0)
    records.save(tmp_path / "r.json", record)
    assert records.load(tmp_path / "r.json", SpeedRecord) == record
    assert json.loads((tmp_path / "r.json").read_text())["schema_version"] == 2


def test_a_missing_record_says_how_to_make_it(tmp_path: Path) -> None:
    for load in (lambda path: records.load(path, SpeedRecord), quality_records.load_items):
        with pytest.raises(UserError, match=r"none\.json: missing\. Run `dvc repro` to make it"):
            load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "(Invalid JSON"),
        ("[]", "should be an object"),
        ('{"variant": "a"}', "status: Field required"),
        ('{"variant": "a", "status": "ok", "speed": 3}', "speed: Extra inputs"),
        ('{"variant": "a", "status": "ok", "schema_version": 1}', "schema_version: Input should be 2"),
        ('{"variant": "a", "status": "ok", "measured_s": NaN}', "measured_s: Input should be a finite number"),
        ('{"variant": "a", "status": "failed"}', "any other status has one"),
    ],
)
def test_what_is_no_such_record_is_told(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        records.load(path, SpeedRecord)
    [problem] = caught.value.problems
    assert problem.startswith(f"{path}: not a SpeedRecord of schema 2 (")
    assert words in problem


def test_items_are_read_back_one_a_line(tmp_path: Path) -> None:
    items = [item(), item(item_id="b", output='two\nlines "quoted" über', score=0.5, passed=False, target=[1, None])]
    records.save_items(tmp_path / "i.jsonl", items)
    assert len((tmp_path / "i.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert quality_records.load_items(tmp_path / "i.jsonl") == items
    records.save_items(tmp_path / "i.jsonl", [])
    assert quality_records.load_items(tmp_path / "i.jsonl") == []


def test_a_damaged_items_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "i.jsonl"
    path.write_text(item().model_dump_json() + '\n{"item_id": "b"}\n')
    with pytest.raises(UserError, match=r"i\.jsonl: Field required\. Run `dvc repro` to make it anew"):
        quality_records.load_items(path)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_an_output_with_an_unusual_line_separator_is_read_back(tmp_path: Path, separator: str) -> None:
    items = [item(output=f"one{separator}two")]
    records.save_items(tmp_path / "i.jsonl", items)
    assert quality_records.load_items(tmp_path / "i.jsonl") == items
