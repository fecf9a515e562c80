from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from unit.preflight.projects import PARAMS, complete, settings
from unit.workspace import ITEMS, calibration_set, document, eval_set, write_yaml

from pipeline import params, preflight, store
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


def found_by_check() -> list[str]:
    with pytest.raises(UserError) as caught:
        preflight.check()
    return list(caught.value.problems)


def test_a_mistake_in_params_hides_none_in_what_they_name(project: Path) -> None:
    shutil.rmtree(project / "model")
    eval_set(project, [ITEMS[0], ITEMS[1] | {"prompt": "a b c d e f g h"}])
    calibration_set(project, [{"id": "s", "kind": "document", "text": "x a b c d e f g h y"}])
    (project / "corpus.txt").unlink()
    workloads = {"short": PARAMS["benchmark"]["workloads"]["short"] | {"text": "none.txt", "pairs": 0}}
    changed = {
        "baselin": "fp16",
        "eval_sets": {"colours": {"weight": 0}, "colors": {}},
        "benchmark": PARAMS["benchmark"] | {"workloads": workloads},
        "runtime": PARAMS["runtime"] | {"cores": [9999]},
    }
    write_yaml(project / "params.yaml", PARAMS | changed)
    assert [problem.removeprefix("params.yaml: ").split(": ")[0] for problem in found_by_check()] == [
        "benchmark.workloads.short.pairs",
        "eval_sets.colours.weight",
        "baselin",
        "model.source.path",
        "eval_sets/colors",
        "benchmark.workloads.short.text",
        "variants.int4.settings.calibration.samples",
        "eval set colours, item name-1",
        "fidelity.text",
        "runtime.cores",
    ]


@pytest.mark.parametrize("section", ["model", "judge", "runtime", "variants", "eval_sets", "benchmark", "fidelity"])
@pytest.mark.parametrize("value", [None, 3, [], {}, {"x": None}, {"x": {"settings": {"calibration": 3}, "text": 3}}])
@pytest.mark.usefixtures("project")
def test_a_section_of_any_kind_is_told_without_a_crash(section: str, value: Any) -> None:
    write_yaml(store.PARAMS, PARAMS | {section: value})
    if (section, value) != ("judge", None):
        assert found_by_check()[0].startswith(f"params.yaml: {section}")


@pytest.mark.parametrize(("content", "given"), [("", "nothing"), ("- 1", "[1]")])
def test_params_that_are_no_settings_are_told_alone(project: Path, content: str, given: str) -> None:
    store.PARAMS.write_text(content)
    assert found_by_check() == [f"params.yaml: must be settings by name, as in `name: value`, got {given}"]


def test_one_faulty_set_hides_nothing_between_the_others(project: Path) -> None:
    """Not what an eval set shares with the calibration set, nor what the fidelity text does."""
    shared = "a b c d e f g h"
    calibration_set(project, [document(1), {"id": "s", "kind": "document", "text": shared + " z" * 40}])
    eval_set(project, [ITEMS[1] | {"prompt": shared}])
    (project / "corpus.txt").write_text(shared)
    raw = PARAMS | {"eval_sets": {"colors": {}, "colours": {}}}
    assert [problem.split(": ")[0] for problem in preflight.problems(params.parse(raw))] == [
        "eval_sets/colors",
        "eval set colours, item name-1",
        "fidelity.text",
    ]
