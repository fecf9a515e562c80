"""What holds for every scorer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.scorers import SCORERS

DOCS = (Path(__file__).parents[3] / "docs" / "scorers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("target", [None, {}, [], "x", 3, {"surplus": {}}])
def test_no_scorer_takes_such_a_target(name: str, target: Any) -> None:
    problems = SCORERS[name].target_problems(target)
    assert problems
    assert all(problem.startswith("target") for problem in problems)


def test_the_docs_name_every_scorer_in_the_table_and_no_other() -> None:
    table = DOCS.partition("## All scorers")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(SCORERS)


def test_a_judge_alone_has_no_function_of_the_output() -> None:
    assert [name for name, scorer in SCORERS.items() if scorer.score is None] == ["judge"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"reference": "a"}, '{"rubric": "…"}'),
        ({"rubric": " "}, "target.rubric must be a text, got ' '"),
        ({"rubric": "a", "reference": 3}, "target.reference must be a text, got 3"),
        ({"rubric": "a", "more": "b"}, '{"rubric": "…"}'),
    ],
)
def test_a_bad_rubric_is_named(target: Any, words: str) -> None:
    [problem] = SCORERS["judge"].target_problems(target)
    assert words in problem


def test_a_good_rubric_passes() -> None:
    assert SCORERS["judge"].target_problems({"rubric": "a"}) == []
    assert SCORERS["judge"].target_problems({"rubric": "a", "reference": "b"}) == []
