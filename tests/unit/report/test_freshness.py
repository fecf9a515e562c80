from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pipeline import params, store
from pipeline.report import freshness
from pipeline.report.analysis import analyse
from pipeline.stages import report as stage

OLD = ["the report is older than eval set support-desk; run `dvc repro`"]


@pytest.fixture
def problems(project, four_variants):
    settings = project.write(*four_variants)
    return lambda: list(freshness.eval_set_problems(settings))


def test_sets_as_they_were_scored_are_current(problems):
    assert problems() == []


@pytest.mark.parametrize("name", ["items.jsonl", "card.yaml", "documents/lease.txt"])
def test_whatever_changed_in_a_set_makes_the_report_old(problems, name):
    store.write_text(store.EVAL_SETS / "support-desk" / name, "changed")
    assert problems() == OLD


def test_files_that_dvc_ignores_do_not_count(problems):
    Path(".dvcignore").write_text("*.bak\n")
    store.write_text(store.EVAL_SETS / "support-desk" / "items.bak", "x")
    assert problems() == []


def test_one_variant_that_was_not_scored_anew_is_enough(problems):
    lock = yaml.safe_load(freshness.RECEIPT.read_text())
    lock["stages"]["evaluate@int8-support-desk"] = {"deps": [{"path": "eval_sets/support-desk", "md5": "0.dir"}]}
    freshness.RECEIPT.write_text(yaml.safe_dump(lock))
    assert problems() == OLD


def test_what_no_receipt_names_is_not_taken_for_current(problems):
    freshness.RECEIPT.write_text("schema: '2.0'\nstages: {}\n")
    assert problems() == OLD
    freshness.RECEIPT.unlink()
    assert problems() == OLD


def test_a_record_that_is_not_there_is_not_old(problems):
    """What is missing is told where records are read."""
    freshness.RECEIPT.unlink()
    for variant in ("fp16", "int8", "int4-gptq", "int4-awq"):
        store.quality_record(variant, "support-desk").unlink()
    assert problems() == []


def test_a_set_that_is_not_here_is_told(problems):
    (store.EVAL_SETS / "support-desk" / "items.jsonl").unlink()
    (store.EVAL_SETS / "support-desk").rmdir()
    assert problems() == [
        "eval_sets/support-desk: no such eval set, so the report cannot be compared with it; bring the folder back"
    ]


@pytest.fixture
def param_problems(project, four_variants):
    """What is said after a change to the raw params.yaml; nothing before it."""
    settings = project.write(*four_variants)
    assert list(freshness.param_problems(settings)) == []

    def after(change) -> list[str]:
        raw = params.read(store.PARAMS)
        change(raw)
        store.PARAMS.write_text(yaml.safe_dump(raw))
        return list(freshness.param_problems(params.Params.model_validate(raw)))

    return after


def test_a_setting_that_a_variant_was_made_with_is_held_against_the_present_one(param_problems):
    def change(raw):
        raw["variants"]["int8"] = {**raw["variants"]["int8"], "settings": {"outlier_threshold": 3.0}}

    assert param_problems(change) == [
        "params.yaml has changed since quantize@int8 was run: variants.int8.settings not there → "
        "{'outlier_threshold': 3.0}; run `dvc repro`"
    ]


def test_making_the_report_anew_does_not_make_old_measurements_new(param_problems, project):
    def change(raw):
        raw["runtime"]["threads"] = 7
        stage.write(analyse(params.Params.model_validate(raw)))

    [problem] = param_problems(change)
    assert "smoke@fp16" in problem
    assert "fidelity@int4-awq" in problem
    assert "quantize" not in problem
    assert f"runtime.threads {project.raw['runtime']['threads']} → 7" in problem


def test_what_measures_nothing_may_change(param_problems):
    def change(raw):
        raw["gates"] = {}
        raw["eval_sets"]["support-desk"]["weight"] = 3.0

    lock = yaml.safe_load(freshness.RECEIPT.read_text())
    lock["stages"]["prompts"] = {"params": {"params.yaml": {"eval_sets": {"support-desk": {"weight": 1.0}}}}}
    freshness.RECEIPT.write_text(yaml.safe_dump(lock))
    assert param_problems(change) == []


def test_what_all_variants_are_measured_on_is_held_against_the_present_too(param_problems):
    lock = yaml.safe_load(freshness.RECEIPT.read_text())
    lock["stages"]["prompts"] = {"params": {"params.yaml": {"fidelity.tokens": 1, "smoke.texts": 50}}}
    freshness.RECEIPT.write_text(yaml.safe_dump(lock))
    assert param_problems(lambda raw: None) == [
        "params.yaml has changed since prompts was run: fidelity.tokens 1 → 8448; run `dvc repro`"
    ]


def test_a_record_of_a_stage_that_the_receipt_does_not_know_is_not_taken_for_current(param_problems):
    lock = yaml.safe_load(freshness.RECEIPT.read_text())
    del lock["stages"]["benchmark@int8"]
    freshness.RECEIPT.write_text(yaml.safe_dump(lock))
    assert param_problems(lambda raw: None) == [
        "dvc.lock does not tell under which params these were run: benchmark@int8; run `dvc repro`"
    ]
    store.speed_record("int8").unlink()
    assert param_problems(lambda raw: None) == []
