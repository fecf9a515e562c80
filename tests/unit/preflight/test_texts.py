from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.preflight.projects import CALIBRATION, PARAMS, settings
from unit.workspace import CARD, ITEMS, calibration_set, document, eval_set, write_lines

from pipeline import named_files, params, preflight
from pipeline.params import Params
from pipeline.preflight import model, texts

ROOT = Path(__file__).parents[3]
SHARING = "x a b c d e f g h y" + " z" * 40
JUDGED = {"scorer": "judge", "max_new_tokens": 8, "description": "a free answer"}
JUDGE = {"base_url": "http://localhost:1/v1", "model": "m", "api_key_env": "MY_JUDGE_KEY"}


@pytest.mark.usefixtures("project")
def test_sets_that_are_not_there_are_told() -> None:
    changed = PARAMS | {"eval_sets": {"colors": {"weight": 1.0}}}
    changed["variants"] = PARAMS["variants"] | {
        "int4": PARAMS["variants"]["int4"] | {"settings": {"calibration": CALIBRATION | {"set": "plane"}}}
    }
    assert preflight.problems(params.parse(changed)) == [
        "eval_sets/colors: no such eval set (there are: colours)",
        "calibration/plane: no such calibration set (there are: plain)",
    ]


def test_words_that_an_eval_item_shares_with_the_calibration_set_are_told(project: Path) -> None:
    calibration_set(project, [document(1), {"id": "s", "kind": "document", "text": SHARING}])
    eval_set(project, [ITEMS[0], ITEMS[1] | {"prompt": "Q: A  b c\nd e f g H yes"}])
    [problem] = preflight.problems(settings())
    assert problem.startswith("eval set colours, item name-1: 'a b c d e f g h' (8 words in a row")


def test_the_shipped_project_has_no_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shipped = params.load()
    assert model.source_problems(shipped.model) == []
    assert list(named_files.problems(named_files.named(shipped.model_dump()))) == []


def test_more_calibration_samples_than_there_are_is_a_problem(project: Path) -> None:
    wanted = {"group_size": 64, "calibration": CALIBRATION | {"samples": 3}}
    assert preflight.problems(settings({"int4": PARAMS["variants"]["int4"] | {"settings": wanted}})) == [
        "variants.int4.settings.calibration.samples: 3 asked for, but set plain has 2"
    ]


def test_samples_that_are_too_short_do_not_count(project: Path) -> None:
    calibration_set(project, [document(1), {"id": "s", "kind": "document", "text": "too short"}])
    assert preflight.problems(settings()) == [
        "variants.int4.settings.calibration.samples: 2 asked for, but only 1 of the 2 in set plain have at least 32 "
        "tokens"
    ]
    # What a chat template adds is not known here.
    short = {"id": "s", "kind": "chat", "messages": [{"role": "user", "content": "too short"}]}
    calibration_set(project, [document(1), short])
    assert preflight.problems(settings()) == []


def with_fidelity(**changes: Any) -> Params:
    return params.parse(PARAMS | {"fidelity": PARAMS["fidelity"] | changes})


def test_a_fidelity_text_that_cannot_be_read_is_a_problem(project: Path) -> None:
    assert preflight.problems(with_fidelity(text="elsewhere.txt")) == ["fidelity.text: no file elsewhere.txt"]
    (project / "corpus.txt").write_bytes(b"caf\xe9 noir")
    assert preflight.problems(settings()) == [
        "fidelity.text: corpus.txt is not UTF-8 (invalid continuation byte at byte 3); save it as UTF-8"
    ]


def test_a_fidelity_text_that_calibration_has_seen_is_a_problem(project: Path) -> None:
    calibration_set(project, [document(1), {"id": "s", "kind": "document", "text": SHARING}])
    (project / "corpus.txt").write_text("So: A b c d\ne f g, and no further.")
    assert preflight.problems(settings()) == []
    (project / "corpus.txt").write_text("So: A b c d\ne f g H!")
    assert preflight.problems(settings()) == [
        "fidelity.text: 'a b c d e f g h' stands both in corpus.txt and in calibration set plain, which would flatter "
        "what was calibrated on it; change one of them"
    ]


def judged(project: Path) -> None:
    """Make the project's eval set one with a category that needs a judge."""
    items = [*ITEMS, {"id": "free-1", "category": "free", "prompt": "Why?", "target": {"rubric": "Says why."}}]
    eval_set(project, items, categories=CARD["categories"] | {"free": JUDGED})


def test_a_category_for_a_judge_needs_one_in_params(project: Path) -> None:
    judged(project)
    assert preflight.problems(settings()) == [
        "eval set colours, category free: answers are scored by a language model, but `judge` in params.yaml is null; "
        "describe one there (at least base_url and model), or take the set out of eval_sets"
    ]


def test_a_judge_needs_its_key_and_good_labels_where_it_is_used(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_JUDGE_KEY", raising=False)
    wanted = params.parse(PARAMS | {"judge": JUDGE})
    write_lines(project / "eval_sets" / "colours" / "labels.jsonl", [{"prompt": "p", "output": "o", "rubric": "r"}])
    assert preflight.problems(wanted) == []
    judged(project)
    assert preflight.problems(wanted) == [
        "eval_sets/colours/labels.jsonl:1: passed: missing",
        "judge.api_key_env: there is no environment variable MY_JUDGE_KEY; export it, or set it to null",
    ]
    (project / "eval_sets" / "colours" / "labels.jsonl").unlink()
    monkeypatch.setenv("MY_JUDGE_KEY", "secret")
    assert preflight.problems(wanted) == []


def calibrated_on(project: Path, words: int) -> None:
    """Give the calibration set two texts of so many words."""
    samples = [{"id": str(n), "kind": "document", "text": "the" + " the" * (words - 1)} for n in range(2)]
    calibration_set(project, samples)


def test_a_calibration_text_shorter_than_the_widest_layer_is_noted(project: Path) -> None:
    # The tiny model's widest layer has 256 inputs.
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(project / "model" / "tokenizer.json"))
    calibrated_on(project, 50)
    tokens = 2 * len(tokenizer.encode("the" + " the" * 49).ids)
    assert tokens < 256
    [note] = texts.notes(settings())
    assert note.startswith(
        f"variants.int4.settings.calibration: about {tokens} tokens are fewer than 256: with fewer tokens than a layer "
    )
    calibrated_on(project, 300)
    assert list(texts.notes(settings())) == []
