from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.metrics import catalogue
from pipeline.metrics.catalogue import BY_NAME, METRICS
from pipeline.records import Reading, Status, known


def value(name: str, evidence: object) -> Reading:
    return BY_NAME[name].compute(evidence)


def test_names_are_unique_and_bounds_exist():
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert {bound for metric in METRICS for bound in (metric.low, metric.high) if bound} <= set(names)


def test_the_catalogue_is_light():
    code = (
        "import sys, pipeline.metrics.catalogue;"
        "print([name for name in ('scipy', 'numpy', 'pandas', 'torch', 'pipeline.params') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(catalogue.__file__).parents[2])}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.stdout.strip() == "[]"


def test_every_metric_of_a_variant(build):
    base = build.evidence("fp16", [1, 1, 1, 0])
    ours = build.evidence("int8", [0, 1, 1, 1], baseline=base, tpot_s=0.025, weight_bytes=2**27, peak_bytes=2**29)
    # Item 0 lost, item 3 won: means are equal.
    assert value("quality", ours).value == 0.75
    assert value("quality_delta", ours).value == 0
    assert (value("flips_lost", ours).value, value("flips_won", ours).value) == (1, 1)
    assert value("decode_tokens_per_s", ours).value == pytest.approx(40)
    assert value("speedup", ours).value == pytest.approx(2)
    assert value("ttft_s_p50", ours).value == pytest.approx(0.1)
    assert value("tpot_s_p95", ours).value == pytest.approx(0.025)
    assert value("weight_bytes", ours).value == 2**27
    assert value("peak_memory_bytes", ours).value == 2**29
    # 32 tokens in 0.1 + 31 × 0.025 s; 200 prompt tokens in 0.09 s
    assert value("end_to_end_tokens_per_s", ours).value == pytest.approx(32 / 0.875)
    assert value("prefill_tokens_per_s", ours).value == pytest.approx(200 / 0.09)
    assert value("length_finish_share", ours).value == 0.25
    assert value("empty_outputs", ours).value == 0


def test_the_baseline_is_its_own_measure_by_definition(build):
    base = build.evidence("fp16")
    named = ("quality_delta", "delta_ci_low", "delta_ci_high", "flips_lost", "flips_won")
    assert [value(name, base).value for name in named] == [0] * 5
    assert value("speedup", base).value == 1


def test_speed_is_that_of_the_headline_workload_alone(build):
    workloads = [build.workload("long", tpot_s=9.0), build.workload(tpot_s=0.05)]
    ours = replace(build.evidence(), speed=build.speed("fp16", workloads))
    assert value("decode_tokens_per_s", ours).value == pytest.approx(20)


def test_peak_memory_on_cuda_is_what_the_allocator_reserved(build):
    speed = build.speed("fp16", engine=build.engine(device="cuda"))
    speed = speed.model_copy(
        update={"memory": speed.memory.model_copy(update={"allocator_reserved_peak_bytes": known(123.0)})}
    )
    assert value("peak_memory_bytes", replace(build.evidence(), speed=speed)).value == 123


def test_several_eval_sets_count_by_weight(build):
    base = build.evidence("fp16")

    def two_sets(first, second):
        return (
            build.scored("x", build.items(first), weight=3),
            build.scored("x", build.items(second), eval_set="legal", weight=1),
        )

    base = replace(base, quality=two_sets([1, 1, 1, 1], [1, 1]))
    ours = replace(build.evidence("int8", baseline=base), quality=two_sets([1, 1, 1, 0], [0, 0]))
    # 3/4 × 0.75 + 1/4 × 0; and 3/4 × -0.25 + 1/4 × -1
    assert value("quality", ours).value == pytest.approx(0.5625)
    assert value("quality_delta", ours).value == pytest.approx(-0.4375)
    assert value("flips_lost", ours).value == 3


def test_a_failed_variant_has_reasons_and_no_numbers(build):
    failed = replace(build.failed("int4"), baseline=build.evidence())
    readings = {metric.name: metric.compute(failed) for metric in METRICS}
    assert {reading.value for reading in readings.values()} == {None}
    assert readings["weight_bytes"].reason == "quantize failed: out of memory"
    assert readings["decode_tokens_per_s"].reason == "benchmark failed: there is no artifact"
    assert readings["quality_delta"].reason == "int4 was not scored on support-desk: there is no artifact"


def test_what_was_measured_is_kept_when_another_stage_failed(build):
    ours = build.evidence("int8", baseline=build.evidence())
    ours = replace(ours, speed=build.speed("int8", status=Status.INVALID, reason="3 parameters are not on cuda"))
    assert (ours.status, ours.reason) == (Status.INVALID, "benchmark: 3 parameters are not on cuda")
    assert value("quality", ours).value == 0.75
    assert value("decode_tokens_per_s", ours).value is None
    assert value("peak_memory_bytes", ours).value is None


def test_without_a_baseline_nothing_is_compared(build):
    ours = build.evidence("int8", baseline=build.failed("fp16"))
    assert value("quality", ours).value == 0.75
    assert value("quality_delta", ours).reason == "fp16 was not scored on support-desk: there is no artifact"
    assert "baseline fp16 has no decode speed" in (value("speedup", ours).reason or "")
    assert value("flips_lost", ours).value is None
