from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import datasets
import pytest
from unit.eval_sets.importers.sources import asked, read, refusals

REVISION = "0123456789abcdef0123456789abcdef01234567"
FIELDS = {"revision": REVISION, "split": "test", "prompt_field": "text", "answer_field": "label"}
NAMES = ["arrival", "refund"]


class Rows(list[dict[str, Any]]):
    """What the importer needs of a data set."""

    features: dict[str, Any]

    @property
    def column_names(self) -> list[str]:
        return list(self.features)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """A hub with one data set, two of whose labels are class numbers; what was asked for is kept."""
    asked_for: list[tuple[Any, ...]] = []
    rows = Rows(
        [
            {"text": "Where?", "label": 0, "options": ["a", "b"], "place": 1, "kind": "card"},
            {"text": "Money?", "label": 1, "options": ["c", "d"], "place": 0, "kind": "pay"},
        ]
    )

    def int2str(number: int) -> str:
        if not 0 <= number < len(NAMES):
            raise ValueError("no such class")
        return NAMES[number]

    rows.features = dict.fromkeys(rows[0], SimpleNamespace()) | {"label": SimpleNamespace(int2str=int2str)}

    def load_dataset(path: str, name: str | None = None, *, revision: str, split: str) -> Rows:
        asked_for.append((path, name, revision, split))
        return rows

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked_for


def test_a_split_at_a_pinned_commit_is_taken_over_with_the_names_of_its_classes(calls: list[Any]) -> None:
    draft = read("hub", "hub:org/bank", **FIELDS, config="en")
    assert calls == [("org/bank", "en", REVISION, "test")]
    assert asked(draft) == [
        ("items", "exact", "Where?", {"answer": "arrival"}),
        ("items", "exact", "Money?", {"answer": "refund"}),
    ]
    assert draft.provenance == f"Imported from the hub data set org/bank (en) at revision {REVISION}, split test."
    assert draft.notes == ["columns that were not named are left out: options, place, kind"]


@pytest.mark.usefixtures("calls")
def test_choices_with_the_place_of_the_right_one_and_categories_are_taken_over() -> None:
    fields = FIELDS | {"answer_field": "place", "choices_field": "options", "category_field": "kind"}
    assert asked(read("hub", "hub:org/bank", **fields)) == [
        ("card", "multiple_choice", "Where?", {"choices": ["a", "b"], "answer": "b"}),
        ("pay", "multiple_choice", "Money?", {"choices": ["c", "d"], "answer": "c"}),
    ]


@pytest.mark.parametrize("revision", [None, "main", REVISION[:-1], REVISION.upper()])
def test_without_a_pinned_commit_nothing_is_asked_for(calls: list[Any], revision: str | None) -> None:
    [problem] = refusals("hub", "hub:org/bank", **(FIELDS | {"revision": revision}))
    assert problem.startswith(f"--revision: needs a commit of the data set, 40 hexadecimal digits, got {revision!r}")
    assert calls == []


def test_everything_that_is_missing_is_told_at_once(calls: list[Any]) -> None:
    assert [problem.split(":")[0] for problem in refusals("hub", "hub:org/bank")] == [
        "--revision",
        "--split",
        "--prompt-field",
        "--answer-field",
    ]
    assert calls == []


@pytest.mark.usefixtures("calls")
def test_a_column_that_is_not_there_is_told() -> None:
    assert refusals("hub", "hub:org/bank", **(FIELDS | {"prompt_field": "txt"})) == [
        "hub:org/bank: no column 'txt'; did you mean 'text'?"
    ]


@pytest.mark.usefixtures("calls")
def test_a_label_that_was_held_back_is_refused() -> None:
    datasets.load_dataset("x", revision="", split="")[1]["label"] = -1
    assert refusals("hub", "hub:org/bank", **FIELDS) == ["hub:org/bank, row 1: expected a text or a number, got None"]


def test_a_data_set_that_cannot_be_loaded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("no network\nmore")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    assert refusals("hub", "hub:org/bank", **FIELDS) == ["hub:org/bank: cannot be loaded (ConnectionError: no network)"]
