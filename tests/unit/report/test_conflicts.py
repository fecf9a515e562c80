"""What keeps records out of one table. Each reason is told with who has what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.errors import UserError
from pipeline.readings import SpeedRecord
from pipeline.report.gather import gather


@pytest.fixture
def pair(build):
    return build.evidence("fp16"), build.evidence("int8", tpot_s=0.1)


def refusals(project, *variants) -> list[str]:
    params = project.write(*variants)
    with pytest.raises(UserError) as caught:
        gather(params)
    return list(caught.value.problems)


def test_one_variant_with_two_artifacts_is_refused(project, pair, build):
    base, ours = pair
    ours = replace(ours, speed=build.speed("int8", artifact_sha256="f" * 64))
    (problem,) = refusals(project, base, ours)
    assert problem.startswith("the records cannot be merged: artifact of int8 differs: ")
    assert f"{'f' * 64} (benchmark)" in problem
    assert "(quantize, smoke, evaluate support-desk, fidelity)" in problem


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


def test_values_that_differ_late_are_told_from_where_they_differ(project, pair, build):
    base, ours = pair
    far = base.quantize.base.model_copy(update={"source": "hub, " + 300 * "x", "revision": "abc123"})
    base = replace(base, quantize=build.quantize("fp16", base=far))
    ours = replace(ours, quantize=build.quantize("int8", base=far.model_copy(update={"revision": "fed456"})))
    (problem,) = refusals(project, base, ours)
    assert problem.startswith("the records cannot be merged: base model differs: …")
    assert "revision='abc123'" in problem
    assert "revision='fed456'" in problem
    assert len(problem) < 600


def test_all_conflicts_are_listed(project, pair, build):
    base, ours = pair
    engine = build.engine(
        packages={"torch": "2.12.0", "transformers": "5.9.0"}, device="cuda", compute_dtype="float16", threads=4
    )
    workload = build.workload(prompt_sha256="c" * 64)
    ours = replace(ours, speed=build.speed("int8", [workload], engine=engine, environment_sha256="b" * 64))
    problems = refusals(project, base, ours)
    for what in (
        "prompt of workload instruction × 1",
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


def changed(evidence, **changes):
    """The variant with another speed record."""
    return replace(evidence, speed=SpeedRecord(**(dict(evidence.speed) | changes)))


def test_a_speed_up_against_another_baseline_is_refused(project, pair):
    base, ours = pair
    (problem,) = refusals(project, base, changed(ours, baseline="bf16"))
    assert problem == (
        "the records cannot be merged: baseline differs: fp16 (params.yaml, fp16); bf16 (int8). "
        "Run `dvc repro` so that all are made alike."
    )


def test_a_speed_up_against_another_artifact_of_the_baseline_is_refused(project, pair):
    base, ours = pair
    (problem,) = refusals(project, base, changed(ours, baseline_artifact_sha256="a" * 64))
    assert "artifact of the baseline differs" in problem
    assert f"{'a' * 64} (benchmark int8)" in problem
    (problem,) = refusals(project, base, changed(ours, baseline_artifact_sha256=None))
    assert "none (benchmark int8)" in problem


def test_texts_that_differ_are_refused(project, pair, build):
    base, ours = pair
    for changes, what in (
        ({"text_sha256": "a" * 64}, "fidelity text differs"),
        ({"window_tokens": 256}, "window of the fidelity text differs: 512 (fp16); 256 (int8)"),
        ({"artifact_sha256": "b" * 64}, "artifact of int8 differs"),
        ({"baseline_artifact_sha256": "c" * 64}, f"artifact of the baseline differs: {base.artifact_sha256} "),
        ({"engine": build.engine(compute_dtype="float32")}, "engine compute_dtype differs"),
    ):
        (problem,) = refusals(project, base, replace(ours, fidelity=build.fidelity("int8", **changes)))
        assert what in problem
        lost = build.fidelity("int8", status="failed", reason="killed", **changes)
        gather(project.write(base, replace(ours, fidelity=lost)))


def test_a_level_is_compared_with_the_same_level_of_the_others(project, pair, build):
    base, ours = pair
    other = {"prompt_sha256": "a" * 64, "output_tokens": 16, "pairs": build.pairs(build.request(tokens=16), None)}
    workloads = [build.workload(), build.workload(concurrency=4)]
    base = changed(base, workloads=workloads)
    gather(project.write(base, changed(ours, workloads=workloads)))
    problems = refusals(project, base, changed(ours, workloads=[workloads[0], build.workload(concurrency=4, **other)]))
    assert ["instruction × 4" in problem for problem in problems] == [True, True]
    assert "prompt of workload" in problems[0]
    assert "output length of workload" in problems[1]
    # Another level than the others have is no conflict: it may have been lost.
    gather(project.write(base, changed(ours, workloads=[workloads[0], build.workload(concurrency=8, **other)])))


def test_speed_measured_in_processes_set_up_otherwise_is_refused(project, pair, build):
    settings = {"cores": "all", "waiting": "passive", "allocator": "retain"}
    base, ours = (changed(e, engine=build.engine(settings=settings)) for e in pair)
    gather(project.write(base, ours))
    ours = changed(ours, engine=build.engine(settings=settings | {"allocator": "default"}))
    (problem,) = refusals(project, base, ours)
    assert "setting allocator differs: retain (fp16); default (int8)" in problem
    (problem,) = refusals(
        project, base, changed(ours, engine=build.engine(settings={"cores": "all", "waiting": "passive"}))
    )
    assert "setting allocator differs: retain (fp16); none (int8)" in problem
