"""The eval sets of this repository."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline import eval_sets, overlap
from pipeline.eval_sets import duplicates
from pipeline.scorers import SCORERS

ROOT = Path(__file__).parents[3]
NAMES = sorted(path.name for path in (ROOT / "eval_sets").iterdir() if path.is_dir())


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch, workspace: Path) -> None:
    """This repository as working directory, after the empty one of the other tests."""
    assert workspace.is_dir()
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_set_has_no_mistakes_and_says_where_it_comes_from(name: str) -> None:
    assert eval_sets.problems(name) == []
    card, items = eval_sets.read_card(name), eval_sets.read_items(name)
    assert {item.category for item in items} == set(card.categories)
    assert all((card.version, card.licence, card.provenance, card.language))


@pytest.mark.parametrize("name", NAMES)
def test_no_two_shipped_items_ask_nearly_the_same(name: str) -> None:
    card, items = eval_sets.read_card(name), eval_sets.read_items(name)
    assert list(duplicates.exact(card, items)) == []
    assert duplicates.near(card, items) == []


def test_no_shipped_item_stands_in_the_shipped_calibration_set() -> None:
    assert list(overlap.leaks("general", NAMES)) == []


def test_the_set_of_the_default_run_is_large_and_wide_enough() -> None:
    counts = Counter(item.category for item in eval_sets.read_items("support-desk"))
    assert sum(counts.values()) >= 200
    assert len(counts) >= 6
    assert min(counts.values()) >= 10


def gold(scorer: str, target: Any) -> str | None:
    """A right answer, written the way a model would; none where a target does not tell one."""
    match scorer:
        case "choice":
            return str(target["answer"]).capitalize() + "."
        case "exact":
            return str(target.get("answer", target.get("any_of", [None])[0]))
        case "contains_any":
            return f"It is {target['any_of'][0]}."
        case "contains_all":
            return "\n".join(entry if isinstance(entry, str) else entry[0] for entry in target["all_of"])
        case "numeric":
            return f"That makes {target['value']}."
        case "json_fields":
            return f"```json\n{json.dumps(target, ensure_ascii=False)}\n```"
        case "json_schema":
            return f"```json\n{json.dumps(target['value'], ensure_ascii=False)}\n```"
    return None


@pytest.mark.parametrize("name", NAMES)
def test_a_right_answer_to_a_shipped_item_scores_one_and_silence_zero(name: str) -> None:
    card = eval_sets.read_card(name)
    for found in eval_sets.read_items(name):
        scorer = card.categories[found.category].scorer
        answer = gold(scorer, found.target)
        if answer is not None:
            assert SCORERS[scorer].score(answer, found.target) == 1, found.id
            assert SCORERS[scorer].score("", found.target) == 0, found.id


@pytest.mark.parametrize("name", NAMES)
def test_every_choice_of_a_shipped_item_but_the_answer_scores_zero(name: str) -> None:
    card = eval_sets.read_card(name)
    for found in eval_sets.read_items(name):
        if card.categories[found.category].scorer == "choice":
            scores = {each: SCORERS["choice"].score(each, found.target) for each in found.target["choices"]}
            assert scores == {each: float(each == found.target["answer"]) for each in found.target["choices"]}, found.id


@pytest.mark.parametrize("name", NAMES)
def test_repeating_the_prompt_does_not_score_on_a_shipped_pattern(name: str) -> None:
    card = eval_sets.read_card(name)
    for found in eval_sets.read_items(name):
        if card.categories[found.category].scorer == "regex":
            assert SCORERS["regex"].score(found.prompt or "", found.target) == 0, found.id


@pytest.mark.parametrize("name", NAMES)
def test_the_answers_to_the_shipped_choices_are_spread(name: str) -> None:
    """Always naming the first choice listed, or the last, must not look like quality."""
    card = eval_sets.read_card(name)
    chosen = [found for found in eval_sets.read_items(name) if card.categories[found.category].scorer == "choice"]
    for place in (0, -1):
        right = sum(found.target["choices"][place] == found.target["answer"] for found in chosen)
        assert right <= 0.6 * len(chosen)
