from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import eval_sets
from pipeline.errors import UserError
from pipeline.eval_sets import scaffold


def test_a_new_set_is_free_of_mistakes_and_shows_the_main_keys(workspace: Path) -> None:
    assert scaffold.create("my-set") == ["eval_sets/my-set/card.yaml", "eval_sets/my-set/items.jsonl"]
    assert eval_sets.problems("my-set") == []
    assert [item.id for item in eval_sets.read_items("my-set")] == ["topic-001", "topic-002", "facts-001"]
    card = (workspace / "eval_sets/my-set/card.yaml").read_text()
    assert sum("#" in line for line in card.splitlines()) >= 5


def test_nothing_is_overwritten(workspace: Path) -> None:
    kept = workspace / "eval_sets" / "my-set" / "notes.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("mine")
    with pytest.raises(UserError, match=r"eval_sets/my-set is there already"):
        scaffold.create("my-set")
    assert [path.name for path in kept.parent.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("name", ["My-Set", "my_set", "-set", "a/b", "..", ""])
def test_a_name_that_will_not_do_is_refused(workspace: Path, name: str) -> None:
    with pytest.raises(UserError, match="is no name for an eval set: lower-case letters, digits and hyphens"):
        scaffold.create(name)
    assert [path.name for path in workspace.iterdir()] == ["params.yaml"]


def test_outside_a_project_every_mistake_is_told(workspace: Path) -> None:
    (workspace / "params.yaml").unlink()
    with pytest.raises(UserError) as caught:
        scaffold.create("My-Set")
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "params.yaml",
        "'My-Set' is no name for an eval set",
    ]
    assert list(workspace.iterdir()) == []
