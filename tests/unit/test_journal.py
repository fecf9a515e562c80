from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.journal import Journal


def test_a_stopped_run_finds_what_it_had_finished(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.jsonl"
    with Journal(path, "key") as journal:
        assert journal.done == []
        journal.add({"answers": ["a\u2028b", 0.1 + 0.2]})
        journal.add({"answers": []})
    with Journal(path, "key") as journal:
        assert journal.done == [{"answers": ["a\u2028b", 0.1 + 0.2]}, {"answers": []}]
        journal.add({"answers": ["c"]})
    with Journal(path, "key") as journal:
        assert len(journal.done) == 3


def test_rows_are_on_the_disk_before_the_run_ends(tmp_path: Path) -> None:
    with Journal(tmp_path / "run.jsonl", "key") as journal:
        journal.add({"answers": ["a"]})
        assert json.loads((tmp_path / "run.jsonl").read_text().splitlines()[1]) == {"answers": ["a"]}


def test_other_inputs_take_nothing_over(tmp_path: Path) -> None:
    with Journal(tmp_path / "run.jsonl", "key") as journal:
        journal.add({"answers": ["a"]})
    with Journal(tmp_path / "run.jsonl", "other key") as journal:
        assert journal.done == []
        journal.add({"answers": ["b"]})
    with Journal(tmp_path / "run.jsonl", "other key") as journal:
        assert journal.done == [{"answers": ["b"]}]


@pytest.mark.parametrize("torn", ['{"answers": ["b"', '{"answers": ["b"]}', '{"answers"\n{"answers": ["c"]}\n', "\0\0"])
def test_a_line_that_was_not_written_to_its_end_does_not_count(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "run.jsonl"
    with Journal(path, "key") as journal:
        journal.add({"answers": ["a"]})
    with path.open("a") as stream:
        stream.write(torn)
    with Journal(path, "key") as journal:
        assert journal.done == [{"answers": ["a"]}]
        journal.add({"answers": ["d"]})
    with Journal(path, "key") as journal:
        assert journal.done == [{"answers": ["a"]}, {"answers": ["d"]}]
