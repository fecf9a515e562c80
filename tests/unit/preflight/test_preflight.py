from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from unit.preflight.projects import PARAMS, complete, settings
from unit.workspace import calibration_set, document, eval_set, write_yaml

from pipeline import preflight, store
from pipeline.errors import UserError


def test_a_good_project_has_no_problems(project: Path) -> None:
    assert preflight.check().settings == settings()
    complete(store.BASE, project / "model")
    assert preflight.problems(settings()) == []


def test_mistakes_in_different_files_come_at_once(project: Path) -> None:
    shutil.rmtree(project / "model")
    (project / "text.txt").unlink()
    eval_set(project, [{"id": "a"}])
    calibration_set(project, [document(1), document(1)])
    with pytest.raises(UserError) as caught:
        preflight.check()
    places = [problem.split(": ")[0] for problem in caught.value.problems]
    assert places == [
        "model.source.path",
        *["eval_sets/colours/items.jsonl:1"] * 2,
        "calibration/plain/samples.jsonl:2",
        "benchmark.workloads.short.text",
    ]


def test_faulty_params_are_told_before_anything_else_is_read(project: Path) -> None:
    shutil.rmtree(project / "eval_sets")
    write_yaml(project / "params.yaml", PARAMS | {"baselin": "fp16"})
    with pytest.raises(UserError) as caught:
        preflight.check()
    assert caught.value.problems == ("params.yaml: baselin: unknown key; did you mean 'baseline'?",)
