from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from pipeline import params, schemas, store
from pipeline.report import report_json
from pipeline.report.analysis import analyse
from pipeline.report.report_records import Figure, Report

ROOT = Path(__file__).resolve().parents[3]
SCORES = [1.0] * 72 + [0.0] * 48


def as_written(analysis):
    return json.loads(store.to_json(report_json.build(analysis).model_dump(mode="json")))


def published(name):
    (path,) = [path for path, _ in schemas.files() if path.name.startswith(name)]
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def test_the_published_schemas_are_those_of_the_models():
    found = dict(schemas.files())
    assert {path.name.partition("-")[0] for path in found} == {"report", "decision", "diff"}
    for path, text in found.items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path}: run `python scripts/schemas.py`"
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
        assert json.loads(text)["$schema"] == schemas.DIALECT


def test_what_is_written_fits_the_published_schema(project, four_variants):
    found = as_written(analyse(project.write(*four_variants)))
    jsonschema.Draft202012Validator(published("report")).validate(found)
    assert found["schema_version"] == 1
    decision = jsonschema.Draft202012Validator(published("decision"))
    decision.validate(found["decision"])


def test_the_schema_refuses_what_does_not_fit_and_lets_new_fields_through(project, four_variants):
    found = as_written(analyse(project.write(*four_variants)))
    validator = jsonschema.Draft202012Validator(published("report"))
    for broken in ({**found, "schema_version": 2}, {**found, "variants": None}, {**found, "warnings": [1]}):
        assert not validator.is_valid(broken)
    assert validator.is_valid({**found, "a_later_field": 1}), "a new field needs no new version"
    del found["warnings"]
    assert not validator.is_valid(found)


def test_the_shipped_records_make_a_valid_report(monkeypatch):
    monkeypatch.chdir(ROOT)
    found = as_written(analyse(params.load()))
    jsonschema.Draft202012Validator(published("report")).validate(found)
    assert len(json.dumps(found)) < 400_000
    assert {level["workload"] for level in found["speed"]} == set(params.load().benchmark.workloads)
    assert Report.model_validate(found).decision.pick == found["decision"]["pick"]


def test_the_report_in_git_is_valid_where_there_is_one():
    path = ROOT / "reports" / "report.json"
    if not path.exists():
        pytest.skip("the report stage has not been run since report.json came")
    jsonschema.Draft202012Validator(published("report")).validate(json.loads(path.read_text(encoding="utf-8")))


def test_every_figure_has_value_and_interval_or_a_reason(project, four_variants):
    found = report_json.build(analyse(project.write(*four_variants)))
    by_name = {each.variant: each for each in found.variants}
    assert by_name["int4-gptq"].metrics["speedup"].value == pytest.approx(1.25)
    assert by_name["int4-gptq"].metrics["speedup"].high == pytest.approx(1.25 * 1.02839, rel=1e-5)
    assert by_name["int4-gptq"].metrics["quality_delta"].value == pytest.approx(-0.025)
    failed = by_name["int4-awq"].metrics["quality"]
    assert (failed.value, failed.low) == (None, None)
    assert failed.reason
    named = {metric.name for metric in found.metrics}
    assert all(set(each.metrics) == named for each in found.variants)
    assert not {"quality_ci_low", "speedup_ci_high"} & named


def test_a_figure_without_a_value_needs_a_reason():
    with pytest.raises(ValueError, match="a figure without a value has a reason"):
        Figure(value=None)


def test_speed_is_by_workload_and_level(project, build):
    project.raw["benchmark"]["sweep"]["concurrency"] = [1, 2]
    levels = [build.workload(), build.workload(concurrency=2)]
    fp16 = replace(build.evidence("fp16", SCORES), speed=build.speed("fp16", levels))
    found = report_json.build(analyse(project.write(fp16))).speed
    assert [(level.workload, level.concurrency, level.is_headline) for level in found] == [
        ("instruction", 1, True),
        ("instruction", 2, False),
    ]
    assert found[1].metrics["aggregate_tokens_per_s"].value == pytest.approx(
        2 * found[0].metrics["aggregate_tokens_per_s"].value
    )


def test_quality_is_by_set_and_category_with_every_flip(project, four_variants):
    found = report_json.build(analyse(project.write(*four_variants)))
    whole = [each for each in found.quality if each.category is None]
    assert [(each.variant, each.items, each.lost, each.won) for each in whole] == [
        ("int8", 120, 1, 0),
        ("int4-gptq", 120, 3, 0),
    ]
    assert sum(each.lost for each in found.quality if each.category and each.variant == "int4-gptq") == 3
    flips = [(flip.variant, flip.item_id, flip.lost) for flip in found.flips]
    assert flips == [
        ("int8", "item-000", True),
        *(("int4-gptq", f"item-{n:03}", True) for n in range(3)),
    ]


def test_failures_say_what_and_why(project, four_variants):
    found = report_json.build(analyse(project.write(*four_variants)))
    assert [(each.variant, each.what, each.reason) for each in found.failures] == [
        ("int4-awq", "failed", "quantize: out of memory")
    ]
