from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from unit.metrics.catalogued import value

from pipeline.metrics import catalogue
from pipeline.metrics.catalogue import MAIN, METRICS
from pipeline.metrics.evidence import Serving
from pipeline.readings import Alternation
from pipeline.records import Status


def test_names_are_unique_and_bounds_exist():
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert {bound for metric in METRICS for bound in (metric.low, metric.high) if bound} <= set(names)


def test_the_main_columns():
    """Their order is that of pareto.csv, which release scripts read."""
    assert [metric.name for metric in MAIN] == [
        *("quality", "quality_ci_low", "quality_ci_high", "quality_delta", "delta_ci_low", "delta_ci_high"),
        *("flips_lost", "flips_won", "decode_tokens_per_s", "speedup", "speedup_ci_low", "speedup_ci_high"),
        *("ttft_s_p50", "ttft_s_p95", "tpot_s_p50", "tpot_s_p95", "weight_bytes", "peak_memory_bytes"),
        "cost_per_million_tokens",
    ]


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
    # Against a baseline of 50 ms; three processes that agree get the interval of the least spread, e^± 0.0279942.
    assert value("speedup", ours).value == pytest.approx(2)
    assert value("speedup_ci_low", ours).value == pytest.approx(2 / 1.02839, rel=1e-5)
    assert value("speedup_ci_high", ours).value == pytest.approx(2 * 1.02839, rel=1e-5)
    assert value("ttft_speedup", ours).value == pytest.approx(1)
    assert value("ttft_speedup_ci_low", ours).value == pytest.approx(1 / 1.02839, rel=1e-5)
    # Two busy threads: 50 ms of CPU time per token against 100 ms
    assert value("decode_cost_ratio", ours).value == pytest.approx(0.5)
    assert value("decode_cost_ratio_ci_high", ours).value == pytest.approx(0.5 * 1.02839, rel=1e-5)
    assert value("decode_cost_s_per_token", ours).value == pytest.approx(0.05)
    assert value("ttft_s_p50", ours).value == pytest.approx(0.1)
    assert value("tpot_s_p95", ours).value == pytest.approx(0.025)
    # 21 requests of 31 gaps
    too_few = "P99 needs 100 readings, there are 21 (`pairs`: 34 turns in each of 3 pairs of processes)"
    assert value("ttft_s_p99", ours).reason == value("ttft_s_p99_ci_low", ours).reason == too_few
    # The lower end is the 17th of 21 alike; 0.95^72 is the first power below 2.5 %.
    assert value("ttft_s_p95_ci_low", ours).value == pytest.approx(0.1)
    assert value("tpot_s_p95_ci_high", ours).reason == "the upper end of P95 needs 72 readings, there are 21"
    assert value("itl_s_p99", ours).value == pytest.approx(0.025)
    assert value("weight_bytes", ours).value == 2**27
    assert value("peak_memory_bytes", ours).value == 2**29
    # 32 tokens in 0.1 + 31 × 0.025 s; 200 prompt tokens in 0.09 s
    assert value("end_to_end_tokens_per_s", ours).value == pytest.approx(32 / 0.875)
    assert value("aggregate_tokens_per_s", ours).value == pytest.approx(32 / 0.875)
    assert value("prefill_tokens_per_s", ours).value == pytest.approx(200 / 0.09)
    assert value("goodput_requests_per_s", ours).value == pytest.approx(1 / 0.875)
    # 0.36 per hour is 0.0001 per second; 3 of 4 items pass
    assert value("cost_per_million_tokens", ours).value == pytest.approx(100 / (32 / 0.875))
    assert value("cost_per_passing_answer", ours).value == pytest.approx(0.0001 * 0.875 / 0.75)
    # (257 MiB + 23040 × 216 bytes) × 40 steps/s / 20e9
    assert value("mbu", ours).value == pytest.approx((257 * 2**20 + 23040 * 216) * 40 / 20e9)
    assert value("kv_bytes_per_token", ours).value == 23040
    assert value("load_s", ours).value == 1.5
    assert value("length_finish_share", ours).value == 0.25


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
    speed = build.speed(
        "int8",
        [build.workload(pairs=build.pairs(build.request(), None))],
        alternation=Alternation.ALONE,
        alternation_reason="the baseline fp16 has no artifact",
    )
    ours = replace(build.evidence("int8", baseline=build.failed("fp16")), speed=speed)
    assert value("quality", ours).value == 0.75
    assert value("quality_delta", ours).reason == "fp16 was not scored on support-desk: there is no artifact"
    assert value("flips_lost", ours).value is None
    assert value("decode_tokens_per_s", ours).value == pytest.approx(20)
    alone = "no turn has a reading of both variant and baseline: the baseline fp16 has no artifact"
    assert value("speedup", ours).reason == value("speedup_ci_low", ours).reason == alone


def test_what_was_not_looked_at_is_missing(build):
    speed = build.speed("int8", kv_cache=None, decode_weight_bytes=None)
    ours = replace(build.evidence("int8"), speed=speed, serving=Serving())
    assert value("kv_bytes_per_token", ours).reason == "the KV cache was not looked at"
    assert value("mbu", ours).reason == ours.memory_model == "the KV cache was not looked at"
    assert value("goodput_requests_per_s", ours).reason == "no objective is given (serving.objective)"
    assert value("cost_per_million_tokens", ours).reason == "no price per hour is given (serving.price_per_hour)"
    uncounted = replace(ours, speed=build.speed("int8", decode_weight_bytes=None))
    assert value("mbu", uncounted).reason == "the weights were not counted"
    elsewhere = replace(ours, headline="elsewhere")
    missing = "the benchmark has no workload 'elsewhere'"
    assert value("decode_tokens_per_s", elsewhere).reason == value("speedup", elsewhere).reason == missing
