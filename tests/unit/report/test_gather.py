from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import store
from pipeline.errors import UserError
from pipeline.metrics.evidence import Serving
from pipeline.metrics.sweep import Objective
from pipeline.records import Status
from pipeline.report.gather import gather


@pytest.fixture
def pair(build):
    return build.evidence("fp16"), build.evidence("int8", tpot_s=0.1)


def test_records_are_read_and_compared_to_the_baseline(project, pair):
    found = gather(project.write(*pair))
    assert [evidence.variant for evidence in found.variants] == ["fp16", "int8"]
    assert found.variants[0].is_baseline
    assert found.variants[1].baseline.variant == "fp16"
    assert found.strays == ()


def test_the_probes_of_all_records_are_known_to_each_variant(project, pair):
    fp16, int8 = pair
    probes = [
        int8.speed.limits.model_copy(update={"bytes_per_s": {"copy": rate}, "array_bytes": 1}) for rate in (1e9, 2e9)
    ]
    speeds = [e.speed.model_copy(update={"limits": probe}) for e, probe in zip(pair, probes, strict=True)]
    unprobed = replace(int8, variant="int4", speed=int8.speed.model_copy(update={"variant": "int4", "limits": None}))
    written = [replace(e, speed=speed) for e, speed in zip((fp16, int8), speeds, strict=True)]
    found = gather(project.write(*written, unprobed)).variants
    assert [evidence.limits for evidence in found] == [tuple(probes)] * 3
    assert found[1].baseline is found[0]


def test_the_baseline_need_not_come_first(project, pair):
    project.raw["baseline"] = "int8"
    against = {"baseline": "int8", "baseline_artifact_sha256": pair[1].artifact_sha256}
    changed = (
        replace(
            e,
            speed=e.speed.model_copy(update=against),
            fidelity=e.fidelity.model_copy(update={"baseline_artifact_sha256": pair[1].artifact_sha256}),
        )
        for e in pair
    )
    found = gather(project.write(*changed))
    assert found.variants[0].baseline is found.variants[1]


def test_every_missing_file_is_named(project, pair):
    params = project.write(*pair)
    gone = [
        store.speed_record("fp16"),
        store.quality_record("int8", "support-desk"),
        store.fidelity_record("int8"),
        store.smoke_record("int8"),
        store.ENVIRONMENT,
    ]
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
    store.write_text(store.fidelity_record("int2"), "not JSON")
    store.write_text(store.smoke_record("int2"), "not JSON")
    assert gather(params).strays == (
        "reports/fidelity/int2.json",
        "reports/quality/int8/legal.json",
        "reports/smoke/int2.json",
        "reports/speed/int2.json",
    )


def test_a_failed_variant_is_a_row(project, build):
    failed = gather(project.write(build.evidence("fp16"), build.failed("int8"))).variants[1]
    assert (failed.status, failed.reason) == (Status.FAILED, "quantize: out of memory")


def test_a_collapsed_variant_is_a_row_whose_reason_is_the_smoke_gates(project, build):
    found = gather(project.write(build.evidence("fp16"), build.collapsed("int8"))).variants[1]
    assert found.status is Status.INVALID
    assert found.reason == "smoke: collapsed: KLD 9.8 (at most 3), top-1 agreement 0.1 % (at least 20 %)"
    assert found.artifact_sha256, "the artifact is there, with its size"


def test_params_reach_the_evidence(project, build):
    project.raw["benchmark"]["workloads"]["code"] = {
        **project.raw["benchmark"]["workloads"]["instruction"],
        "concurrency": 4,
    }
    project.raw["benchmark"]["sweep"]["concurrency"] = [1, 2]
    speed = build.speed("fp16", context_length=8192)
    [found] = gather(project.write(replace(build.evidence("fp16"), speed=speed))).variants
    assert found.concurrency == {"instruction": 1, "code": 4}
    assert found.sweep_workload == "instruction"
    assert found.context_length == 8192
    assert found.serving == Serving(
        objective=Objective(ttft_s=0.5, tpot_s=0.1), memory_gib=4.0, price_per_hour=0.36, max_spread=0.25
    )


def test_without_levels_nothing_was_swept(project, build):
    [found] = gather(project.write(build.evidence("fp16"))).variants
    assert found.sweep == "no workload was swept over concurrencies"
