from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pipeline import store
from pipeline.report import freshness

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
