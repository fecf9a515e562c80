from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unit.eval_sets.fake_tokenizer import Words, template, tokenizer
from unit.workspace import CARD, ITEMS, calibration_set, document, eval_set

from pipeline import checkpoint
from pipeline.eval_sets import lint
from pipeline.eval_sets.lint import Findings

NO_BASE = "prompt lengths are checked once the base model is there (`dvc repro base`)"
CUSTOM: list[dict[str, Any]] = [item | {"id": f"{item['category']}-001"} for item in ITEMS]


@pytest.fixture(autouse=True)
def power(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Items needed as 1 / margin, without the statistics; what was asked for is kept."""
    asked: list[tuple[float, float]] = []

    def items_needed(margin: float, discordant: float) -> int:
        asked.append((margin, discordant))
        return round(1 / margin)

    monkeypatch.setitem(sys.modules, "pipeline.metrics.power", SimpleNamespace(items_needed=items_needed))
    return asked


def check(margin: float = 0.25, **options: Any) -> Findings:
    return lint.check("colours", margin, **options)


def test_a_good_set_has_neither_errors_nor_warnings(workspace: Path) -> None:
    eval_set(workspace, CUSTOM)
    calibration_set(workspace, [document(1)])
    assert check() == Findings([], [], [NO_BASE, "colours 1.0.0: items 4, categories 4, critical 1"])


def test_mistakes_in_the_files_come_alone(workspace: Path) -> None:
    eval_set(workspace, [ITEMS[0], ITEMS[1] | {"prompt": ""}])
    calibration_set(workspace, [document(1), document(1)])
    found = check()
    assert [error.split(": ")[0] for error in found.errors] == [
        "eval_sets/colours/items.jsonl:2",
        "calibration/plain/samples.jsonl:2",
    ]
    assert found.warnings == []


def test_a_calibration_set_that_is_not_there_is_told(workspace: Path) -> None:
    eval_set(workspace)
    assert check(calibration_set="plane").errors == [
        "--calibration: calibration/plane: no such calibration set (there are: none)"
    ]


def test_a_faulty_calibration_set_hides_no_mistake_of_the_eval_set(workspace: Path) -> None:
    eval_set(workspace, [*CUSTOM, CUSTOM[1] | {"id": "name-002"}])
    calibration_set(workspace, [document(1), document(1)])
    found = check()
    assert [error.split(": ")[0] for error in found.errors] == [
        "calibration/plain/samples.jsonl:2",
        "items name-001, name-002 ask the same; keep one",
    ]
    assert found.notes[1] == "leaks into plain were not looked for, since it cannot be read"


def test_leaks_into_every_calibration_set_are_errors_unless_one_is_named(workspace: Path) -> None:
    eval_set(workspace, [CUSTOM[0] | {"prompt": "a b c d e f g h"}])
    calibration_set(workspace, [{"id": "s", "kind": "document", "text": "a b c d e f g h"}])
    assert ["stands in calibration set plain" in error for error in check().errors] == [True]
    other = workspace / "calibration" / "other"
    other.mkdir()
    for name in ("card.yaml", "samples.jsonl"):
        text = (workspace / "calibration" / "plain" / name).read_text()
        (other / name).write_text(text.replace("name: plain", "name: other").replace("a b c", "x y z"))
    assert check(calibration_set="other").errors == []
    assert len(check(calibration_set="plain").errors) == 1
    assert len(check().errors) == 1


def test_the_same_question_twice_is_an_error_and_a_similar_one_a_warning(workspace: Path) -> None:
    long = "the grey parcel from the mill at the river has been late since monday of last week and nobody calls back"
    prompts = ["One?", "one", long, long.replace("back", "me")]
    eval_set(workspace, [CUSTOM[1] | {"id": f"name-00{n}", "prompt": text} for n, text in enumerate(prompts)])
    found = check()
    assert found.errors == ["items name-000, name-001 ask the same; keep one"]
    [warning] = [warning for warning in found.warnings if "wording" in warning]
    assert warning == (
        "items name-002 and name-003 share 90% of their wording; reword one, or give both the same group"
    )


def test_guessable_answers_are_a_warning(workspace: Path) -> None:
    items = [CUSTOM[0] | {"id": f"pick-{n:03}", "prompt": f"question{n} about{n} that{n}?"} for n in range(20)]
    eval_set(workspace, items)
    assert any(warning.startswith("category pick: 'red' is the answer of 20") for warning in check().warnings)


def test_what_is_still_to_be_written_is_a_warning(workspace: Path) -> None:
    categories = {"pick": CARD["categories"]["pick"] | {"description": "TODO: x"}}
    eval_set(workspace, CUSTOM[:1], licence="TODO: which?", categories=categories)
    assert check(margin=0.9).warnings == [
        "card.yaml: licence is still to be written",
        "card.yaml: categories.pick.description is still to be written",
    ]


def test_what_nothing_uses_is_a_warning(workspace: Path) -> None:
    eval_set(workspace, CUSTOM[:3])
    documents = workspace / "eval_sets" / "colours" / "documents"
    documents.mkdir()
    (documents / "lease.txt").write_text("x")
    assert check(margin=0.4).warnings == [
        "card.yaml: no item is of category fields",
        "eval_sets/colours/documents/lease.txt: no item asks about it",
    ]


def test_ids_out_of_custom_are_one_warning(workspace: Path) -> None:
    eval_set(workspace, [*CUSTOM, *(CUSTOM[1] | {"id": f"x{n}", "prompt": f"w{n}?"} for n in range(7))])
    assert check().warnings == [
        "ids are <category>-<number> by custom, such as pick-001; not so: x0, x1, x2, x3, x4 and 2 more"
    ]


def test_a_text_that_ends_in_white_space_is_a_warning(workspace: Path) -> None:
    items = [*CUSTOM[1:], CUSTOM[0] | {"prompt": "Red or blue? "}]
    eval_set(workspace, items, format="text")
    [warning] = check().warnings
    assert warning.endswith("pick-001")
    eval_set(workspace, items)
    assert check().warnings == []


def test_too_few_items_for_the_margin_are_told_with_the_number_needed(
    workspace: Path, power: list[tuple[float, float]]
) -> None:
    eval_set(workspace, CUSTOM, margin=0.2)
    [warning] = lint.check("colours").warnings
    assert warning == (
        "4 items: to rule out a loss of 20.0% needs about 5, if 10% of the items change between pass and fail; write "
        "more, or ask for a wider margin"
    )
    assert lint.check("colours", 0.25).warnings == []
    assert power == [(0.2, lint.DISCORDANT), (0.25, lint.DISCORDANT)]


def test_items_that_share_a_group_are_told_to_count_for_less(workspace: Path) -> None:
    eval_set(workspace, [item | {"group": "g"} for item in CUSTOM])
    [warning] = check(margin=0.2).warnings
    assert "needs about 5, and more where they share documents or groups, if 10%" in warning
    assert check().notes[-1] == "colours 1.0.0: items 4, categories 4, clusters 1, items in clusters 4, critical 1"


def with_base(monkeypatch: pytest.MonkeyPatch, context: int, words: Words) -> None:
    monkeypatch.setattr(checkpoint, "is_complete", lambda _: True)
    monkeypatch.setattr(checkpoint, "context_length", lambda _: context)
    monkeypatch.setattr(lint, "Tokenizer", lambda _: tokenizer(words))


def test_prompts_over_the_base_model_s_context_are_named(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eval_set(workspace, [*CUSTOM[1:], CUSTOM[0] | {"prompt": "word " * 40}])
    words = Words(adds_bos=False, chat_template=template())
    with_base(monkeypatch, 60, words)
    assert check().warnings == []
    with_base(monkeypatch, 40, words)
    found = check()
    assert found.warnings == [
        "over the base model's context of 40 with their answer, so not asked: pick-001 (46 tokens)"
    ]
    assert found.notes[0] == "the longest prompt has 46 tokens of the base model's context of 40"


def test_a_base_model_that_cannot_be_asked_so_is_a_warning(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eval_set(workspace, CUSTOM)
    with_base(monkeypatch, 60, Words(adds_bos=False))
    [warning] = check().warnings
    assert "no chat template" in warning
