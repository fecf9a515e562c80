from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import store
from pipeline.errors import UserError
from pipeline.records import Status
from pipeline.report.gather import gather


@pytest.fixture
def pair(build):
    return build.evidence("fp16"), build.evidence("int8", tpot_s=0.1)


def refusals(project, *variants) -> list[str]:
    params = project.write(*variants)
    with pytest.raises(UserError) as caught:
        gather(params)
    return list(caught.value.problems)


def test_records_are_read_and_compared_to_the_baseline(project, pair):
    found = gather(project.write(*pair))
    assert [evidence.variant for evidence in found.variants] == ["fp16", "int8"]
    assert found.variants[0].is_baseline
    assert found.variants[1].baseline.variant == "fp16"
    assert found.strays == ()


def test_the_baseline_need_not_come_first(project, pair):
    project.raw["baseline"] = "int8"
    found = gather(project.write(*pair))
    assert found.variants[0].baseline is found.variants[1]


def test_every_missing_file_is_named(project, pair):
    params = project.write(*pair)
    gone = [store.speed_record("fp16"), store.quality_record("int8", "support-desk"), store.ENVIRONMENT]
    for path in gone:
        path.unlink()
    with pytest.raises(UserError) as caught:
        gather(params)
    assert sorted(caught.value.problems) == sorted(f"{path}: missing. Run `dvc repro` to make it." for path in gone)


def test_missing_or_shortened_items_are_an_error(project, pair):
    params = project.write(*pair)
    path = store.quality_items("int8", "support-desk")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    with pytest.raises(UserError, match="holds 3 items, but the record beside it was made from 4"):
        gather(params)
    path.write_text('{"item_id": ')
    with pytest.raises(UserError, match="Run `dvc repro` to make it anew"):
        gather(params)
    path.unlink()
    with pytest.raises(UserError, match="missing"):
        gather(params)


def test_strays_are_named_and_not_read(project, pair):
    params = project.write(*pair)
    store.write_text(store.speed_record("int2"), "not JSON")
    store.write_text(store.quality_record("int8", "legal"), "not JSON")
    assert gather(params).strays == ("reports/quality/int8/legal.json", "reports/speed/int2.json")


def test_a_failed_variant_is_a_row(project, build):
    failed = gather(project.write(build.evidence("fp16"), build.failed("int8"))).variants[1]
    assert (failed.status, failed.reason) == (Status.FAILED, "quantize: out of memory")


def test_one_variant_with_two_artifacts_is_refused(project, pair, build):
    base, ours = pair
    ours = replace(ours, speed=build.speed("int8", artifact_sha256="f" * 64))
    (problem,) = refusals(project, base, ours)
    assert problem.startswith("the records cannot be merged: artifact of int8 differs: ")
    assert f"{'f' * 64} (benchmark)" in problem
    assert "(quantize, evaluate support-desk)" in problem


def test_other_items_are_refused(project, pair, build):
    base, ours = pair
    ours = replace(ours, quality=(build.scored("int8", build.items([1, 1, 1, 0]), eval_set_sha256="e" * 64),))
    (problem,) = refusals(project, base, ours)
    assert "eval set support-desk differs" in problem


def test_other_prompts_of_the_same_items_are_refused(project, pair, build):
    base, ours = pair
    items = build.items([1, 1, 1])
    items = (*items, build.item("item-003", 0, prompt_sha256="d" * 64))
    (problem,) = refusals(project, base, replace(ours, quality=(build.scored("int8", items),)))
    assert "prompts of eval set support-desk differs" in problem


def test_all_conflicts_are_listed(project, pair, build):
    base, ours = pair
    engine = build.engine(
        packages={"torch": "2.12.0", "transformers": "5.9.0"}, device="cuda", compute_dtype="float16", threads=4
    )
    workload = build.workload(prompt_sha256="c" * 64)
    ours = replace(ours, speed=build.speed("int8", [workload], engine=engine, environment_sha256="b" * 64))
    problems = refusals(project, base, ours)
    for what in (
        "prompt of workload instruction",
        "machine",
        "engine device",
        "engine compute_dtype",
        "engine threads",
        "version of torch",
    ):
        assert any(f"{what} differs" in problem for problem in problems), what
    assert len(problems) == 6


def test_a_package_that_only_one_variant_needs_is_no_conflict(project, pair, build):
    base, ours = pair
    engine = build.engine(packages={"torch": "2.13.0", "gptqmodel": "7.6.0"})
    gather(project.write(base, replace(ours, speed=build.speed("int8", engine=engine))))
