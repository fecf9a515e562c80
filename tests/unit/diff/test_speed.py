from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import store
from pipeline.diff import speed
from pipeline.report.report_records import Figure

SCORES = [1.0] * 60 + [0.0] * 40


def two(build, tpot_s=0.04):
    return build.evidence("fp16", SCORES), build.evidence("int8", SCORES, tpot_s=tpot_s)


def edit(path: Path, change):
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


def test_ratios_are_compared_with_an_interval(reports, build, difference):
    """1.25× before, 2.5× after, each known to a factor 1.02839: twice as fast, to a factor 1.02839^√2."""
    a, b = reports.keep("a", *two(build)), reports.keep("b", *two(build, tpot_s=0.02))
    found = difference(a, b)
    assert found.speed_refused == []
    (line,) = found.speed
    assert (line.variant, line.workload, line.concurrency) == ("int8", "instruction", 1)
    assert line.change.value == pytest.approx(2)
    assert line.change.high == pytest.approx(2 * 1.02839 ** math.sqrt(2), rel=1e-4)
    assert line.change.low == pytest.approx(2 / 1.02839 ** math.sqrt(2), rel=1e-4)
    assert (line.decode_a.value, line.decode_b.value) == (pytest.approx(25), pytest.approx(50))
    assert line.same_readings is False


def test_the_interval_of_a_change_takes_the_far_ends_crosswise():
    was, now = Figure(value=1.0, low=0.5, high=1.1), Figure(value=1.0, low=0.9, high=4.0)
    found = speed.change(was, now)
    assert found.low == pytest.approx(math.exp(-math.hypot(math.log(1 / 0.9), math.log(1.1))))
    assert found.high == pytest.approx(math.exp(math.hypot(math.log(4), math.log(2))))


MACHINES = [
    ("cpu", lambda environment: environment.update(cpu="Another CPU"), "cpu: Some CPU → Another CPU"),
    (
        "gpu",
        lambda environment: environment.update(gpus=[{"name": "H", "memory_bytes": 1, "driver": "1"}]),
        'gpus: [] → [{"name": "H"',
    ),
    (
        "package",
        lambda environment: environment["packages"].update(torch="2.14.0"),
        "packages.torch: 2.13.0 → 2.14.0",
    ),
    ("memory", lambda environment: environment.update(memory_bytes=1), "memory_bytes: 8589934592 → 1"),
]


@pytest.mark.parametrize(("_", "change", "said"), MACHINES, ids=[case[0] for case in MACHINES])
def test_another_machine_is_refused_by_name_and_the_rest_is_shown(reports, build, difference, _, change, said):
    a, b = reports.keep("a", *two(build)), reports.keep("b", *two(build, tpot_s=0.02))
    edit(b / store.ENVIRONMENT, change)
    found = difference(a, b)
    assert found.speed == []
    assert len(found.speed_refused) == 1
    assert found.speed_refused[0].startswith(said)
    assert [each.variant for each in found.quality if each.eval_set is None] == ["fp16", "int8"]
    assert len(found.memory) == 4
    assert any("different machines or software (1 difference)" in note for note in found.notes)


def test_a_machine_that_is_not_recorded_is_refused(reports, build, difference):
    a, b = reports.keep("a", *two(build)), reports.keep("b", *two(build))
    (a / store.ENVIRONMENT).unlink()
    found = difference(a, b)
    assert found.speed == []
    assert found.speed_refused == [f"machine: {a} does not say on which it was measured"]
    assert f"{a}: has no reports/environment.json" in found.notes


def test_another_engine_setting_of_the_baseline_is_refused(reports, build, difference):
    a, b = reports.keep("a", *two(build)), reports.keep("b", *two(build))
    edit(b / store.speed_record("fp16"), lambda record: record["engine"].update(threads=8))
    assert difference(a, b).speed_refused == ["engine of fp16, threads: 2 → 8"]


def test_another_baseline_artifact_is_refused(reports, build, difference):
    other = store.sha256_text("another")
    fp16, int8 = two(build)
    a = reports.keep("a", fp16, int8)
    changed = replace(
        fp16,
        quantize=build.quantize("fp16", artifact_sha256=other),
        smoke=build.smoke("fp16", artifact_sha256=other),
        speed=build.speed("fp16", artifact_sha256=other, baseline_artifact_sha256=other),
        quality=(build.scored("fp16", build.items(SCORES), artifact_sha256=other),),
        fidelity=build.fidelity("fp16", artifact_sha256=other, baseline_artifact_sha256=other),
    )
    against = replace(
        int8,
        speed=int8.speed.model_copy(update={"baseline_artifact_sha256": other}),
        fidelity=build.fidelity("int8", baseline_artifact_sha256=other),
    )
    found = difference(a, reports.keep("b", changed, against))
    assert found.speed == []
    assert found.speed_refused[0].startswith("artifact of the baseline fp16: ")
    assert {each.variant: each.same for each in found.artifacts} == {"fp16": False, "int8": True}


def test_one_variant_s_engine_or_prompt_refuses_that_variant_only(reports, build, difference):
    variants = (*two(build), build.evidence("int4", SCORES, tpot_s=0.03))
    a, b = reports.keep("a", *variants), reports.keep("b", *variants)
    edit(b / store.speed_record("int8"), lambda record: record["engine"].update(name="llama_cpp"))
    edit(b / store.speed_record("int4"), lambda record: record["workloads"][0].update(prompt_sha256="0" * 64))
    found = {line.variant: line.change for line in difference(a, b).speed}
    assert (found["int8"].value, found["int8"].reason) == (None, "engine of int8, name: transformers → llama_cpp")
    assert found["int4"].value is None
    assert found["int4"].reason.startswith("workload instruction, prompt_sha256: ")


def test_what_was_not_measured_anew_is_said(reports, build, difference):
    a, b = reports.keep("a", *two(build)), reports.keep("b", *two(build))
    (line,) = difference(a, b).speed
    assert line.same_readings is True
    assert (line.change.value, line.change.reason) == (None, speed.NOT_ANEW)
    assert line.a == line.b


def test_without_the_speed_records_nothing_says_that_it_was_not_measured_anew(reports, build, difference):
    a, b = reports.keep("a", *two(build)), reports.keep("b", *two(build, tpot_s=0.02))
    for folder in (a, b):
        (folder / store.speed_record("int8")).unlink()
    (line,) = difference(a, b).speed
    assert line.same_readings is False
    assert (line.change.value, line.change.reason) == (None, "no speed record on either side says what was measured")


@pytest.mark.parametrize("listed", ["null", "7", "[null, 7]"])
def test_a_damaged_speed_record_is_no_crash(reports, build, difference, listed):
    a = reports.keep("a", build.evidence("fp16"), build.evidence("int8"))
    b = reports.keep("b", build.evidence("fp16"), build.evidence("int8"))
    (b / "reports" / "speed" / "int8.json").write_text(f'{{"workloads": {listed}}}')
    assert [change.variant for change in difference(a, b).speed] == ["int8"]
