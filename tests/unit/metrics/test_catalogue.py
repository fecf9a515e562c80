from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.metrics import catalogue, pairing
from pipeline.metrics.catalogue import BY_NAME, MAIN, METRICS
from pipeline.metrics.evidence import Serving
from pipeline.readings import Alternation, Side
from pipeline.records import Reading, Status, known


def value(name: str, evidence: object) -> Reading:
    return BY_NAME[name].compute(evidence)


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
    assert value("ttft_s_p99", ours).reason == "P99 needs 100 readings, there are 21"
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
    assert value("empty_outputs", ours).value == 0


def test_the_baseline_is_its_own_measure_by_definition(build):
    base = build.evidence("fp16")
    named = ("quality_delta", "delta_ci_low", "delta_ci_high", "flips_lost", "flips_won")
    assert [value(name, base).value for name in named] == [0] * 5


RATIOS = [
    f"{name}{end}" for name in ("speedup", "ttft_speedup", "decode_cost_ratio") for end in ("", "_ci_low", "_ci_high")
]


def test_the_baselines_ratios_are_one_whatever_two_processes_of_it_showed(build):
    base = replace(build.evidence(), speed=build.speed("fp16", [build.workload(ttft_s=0.09, tpot_s=0.048)]))
    assert [value(name, base).value for name in RATIOS] == [1] * 9
    noise = base.ratio(base.headline, pairing.decode_speedup)
    assert not isinstance(noise, str)
    assert noise.ratio == pytest.approx(0.05 / 0.048)


def test_a_baseline_whose_times_must_not_be_used_has_no_ratio_either(build):
    swapped = [build.process(swap_bytes=known(2**20))]
    base = replace(build.evidence(), speed=build.speed("fp16", processes=swapped))
    assert {value(name, base).reason for name in RATIOS} == {"INVALID: 1.00 MiB of the worker were in swap"}
    cut_off = replace(base, speed=build.speed("fp16", [build.workload(output_tokens=16)]))
    assert {value(name, cut_off).reason for name in RATIOS} == {"INVALID: an output of 32 tokens where 16 are pinned"}
    elsewhere = replace(base, speed=build.speed("fp16", [build.workload("elsewhere")]))
    assert {value(name, elsewhere).reason for name in RATIOS} == {"the benchmark has no workload 'instruction'"}


def test_work_per_token_is_device_time_where_there_is_some(build):
    on_cuda = build.request(tpot_s=0.05, device_s=(0.1, 0.1 + 31 * 0.04))
    speed = build.speed("fp16", [build.workload(pairs=build.pairs(on_cuda, on_cuda))])
    assert value("decode_cost_s_per_token", replace(build.evidence(), speed=speed)).value == pytest.approx(0.04)


def test_speed_is_that_of_the_headline_workload_alone(build):
    workloads = [build.workload("long", tpot_s=9.0), build.workload(tpot_s=0.025)]
    ours = replace(build.evidence("int8", baseline=build.evidence()), speed=build.speed("int8", workloads))
    assert value("decode_tokens_per_s", ours).value == pytest.approx(40)
    assert value("speedup", ours).value == pytest.approx(2)


def swept(build, **changes):
    """The headline workload, of 2 streams in params.yaml, at 1, 2 and 4."""
    workloads = [build.workload(concurrency=streams, tpot_s=0.04 + 0.01 * streams) for streams in (1, 2, 4)]
    peaks = [build.peak(workload, 1000 * workload.concurrency) for workload in workloads]
    speed = build.speed("int8", workloads, processes=[build.process(number, peaks=peaks) for number in range(3)])
    ours = build.evidence("int8", baseline=build.evidence())
    return replace(ours, speed=speed, concurrency={"instruction": 2}, **changes)


def test_load_time_is_the_median_of_the_variants_processes(build):
    loads = [build.process(number, load_s=load_s) for number, load_s in enumerate((1.0, 9.0, 2.0))]
    loads += [build.process(number, Side.BASELINE, load_s=0.1) for number in range(5)]
    ours = replace(build.evidence("int8"), speed=build.speed("int8", processes=loads))
    assert value("load_s", ours).value == 2


def test_levels_of_the_sweep_do_not_mix_with_the_workload(build):
    ours = swept(build)
    # 32 tokens: 0.1 + 31 × 0.06 = 1.96 s at 2 streams
    assert value("decode_tokens_per_s", ours).value == pytest.approx(1 / 0.06)
    assert value("aggregate_tokens_per_s", ours).value == pytest.approx(64 / 1.96)
    assert value("goodput_requests_per_s", ours).value == pytest.approx(2 / 1.96)
    assert value("speedup", ours).value == pytest.approx(0.05 / 0.06)
    assert value("peak_memory_bytes", ours).value == 2000
    assert value("cost_per_passing_answer", ours).value == pytest.approx(0.0001 * 1.96 / 2 / 0.75)


def test_the_cuda_context_takes_room_on_a_gpu_alone(build):
    ours = swept(build)
    on_gpu = {
        "nvml_process_bytes": known(500 * 2**20),
        "allocator_reserved_peak_bytes": known(100 * 2**20),
    }
    processes = [
        process.model_copy(update={"memory": process.memory.model_copy(update=on_gpu)})
        for process in ours.speed.processes
    ]

    def context(device: str) -> float:
        changes = {"processes": processes, "engine": build.engine(device=device)}
        model = replace(ours, speed=ours.speed.model_copy(update=changes)).memory_model
        assert not isinstance(model, str)
        return model.cuda_context_bytes

    assert (context("cuda"), context("cpu")) == (400 * 2**20, 0)


def test_figures_of_the_sweep(build):
    # 0.1 + 31 × 0.05, 0.06, 0.08 = 1.65, 1.96, 2.58 s: rates 19.4, 32.7, 49.6; powers 11.8, 16.7, 19.2
    ours = swept(build)
    assert value("knee_concurrency", ours).value == 4
    assert value("best_aggregate_tokens_per_s", ours).value == pytest.approx(128 / 2.58)
    unswept = swept(build, sweep_workload=None)
    assert value("knee_concurrency", unswept).reason == "no workload was swept over concurrencies"
    assert value("knee_concurrency", build.evidence()).reason == "fewer than two levels can be compared"


def test_capacity_is_fitted_on_all_levels(build):
    # Peaks 1000, 2000, 4000 at 232, 464, 928 tokens: the slope, 4.3, is below the cache's 23,040 bytes per token.
    model = swept(build).memory_model
    assert not isinstance(model, str)
    assert model.slope_bytes == 23040
    assert model.fixed_bytes == 1000 - 23040 * 232


def test_what_fits_is_within_the_memory_of_params_and_the_models_context(build):
    # 23,040 bytes per token and 1000 - 23040 × 232 fixed: a GiB holds 2^30 / 23040 + 231.96 = 46,835.3 tokens.
    ours = swept(build, serving=Serving(memory_gib=1))
    assert ours.largest_context(10).value == 4683
    assert ours.largest_context(1).value == 8192
    no_memory = "no memory to fit into is given (serving.memory_gib)"
    assert swept(build, serving=Serving()).largest_context(1).reason == no_memory
    assert swept(build, context_length=None).largest_context(1).reason == "the model's context length is not known"
    assert (
        build.evidence().largest_context(1).reason == "a line through the peaks needs 2 sizes of request, there are 1"
    )


def test_the_best_of_all_probes_is_the_ceiling(build):
    ours = build.evidence("int8")
    [own] = ours.limits
    slow = own.model_copy(update={"bytes_per_s": {"copy": 1e9}})
    alone, beside = (value("mbu", replace(ours, limits=limits)).value for limits in ((slow,), (slow, own)))
    assert alone is not None
    assert beside == pytest.approx(alone / 20)


def test_an_invalid_record_has_no_speed_but_its_memory(build):
    ours = build.evidence("int8", baseline=build.evidence())
    noisy = [build.process(peaks=ours.speed.processes[0].peaks, idle_cpu_share=known(0.5))]
    ours = replace(ours, speed=ours.speed.model_copy(update={"processes": noisy}))
    reason = "INVALID: the idle process took CPU time of 50.0 % of the other's turns"
    timed = (
        *("decode_tokens_per_s", "speedup", "speedup_ci_low", "ttft_s_p50", "cost_per_million_tokens", "mbu", "load_s"),
        *("decode_cost_ratio", "goodput_requests_per_s", "knee_concurrency", "cost_per_passing_answer"),
    )
    assert {value(name, ours).reason for name in timed} == {reason}
    assert value("peak_memory_bytes", ours).value == 900 * 2**20
    assert value("kv_bytes_per_token", ours).value == 23040
    assert value("quality", ours).value == 0.75


def test_swapped_memory_has_no_peak(build):
    ours = build.evidence("int8")
    swapped = [build.process(peaks=ours.speed.processes[0].peaks, swap_bytes=known(2**30))]
    ours = replace(ours, speed=ours.speed.model_copy(update={"processes": swapped}))
    assert value("peak_memory_bytes", ours).reason == "INVALID: 1.00 GiB of the worker were in swap"
    assert ours.memory_model == "INVALID: 1.00 GiB of the worker were in swap"


def test_unsteady_rates_are_refused_but_paired_ratios_are_kept(build):
    # Both sides drift together from 20 to 10 tokens/s: quartiles and median of 20, 10, 20, 10, … differ by half.
    pairs = [
        pair
        for tpot_s in (0.05, 0.1)
        for pair in build.pairs(build.request(tpot_s=tpot_s / 2), build.request(tpot_s=tpot_s))
    ]
    ours = build.evidence("int8", baseline=build.evidence())
    ours = replace(ours, speed=build.speed("int8", [build.workload(pairs=pairs)]))
    assert "decode rates spread over" in (value("decode_tokens_per_s", ours).reason or "")
    assert value("cost_per_million_tokens", ours).value is None
    assert value("goodput_requests_per_s", ours).value is None
    assert value("mbu", ours).value is None
    assert value("speedup", ours).value == pytest.approx(2)
    assert value("speedup_ci_low", ours).value is not None


def test_another_output_length_refuses_the_ratios_too(build):
    ours = replace(build.evidence("int8"), speed=build.speed("int8", [build.workload(output_tokens=16)]))
    reason = "INVALID: an output of 32 tokens where 16 are pinned"
    assert value("speedup", ours).reason == value("tpot_s_p50", ours).reason == reason


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


def test_two_pairs_of_processes_have_a_speedup_without_an_interval(build):
    pairs = build.pairs(build.request(), build.request(), processes=2)
    ours = build.evidence("int8", baseline=build.evidence())
    ours = replace(ours, speed=build.speed("int8", [build.workload(pairs=pairs)]))
    assert value("speedup", ours).value == pytest.approx(1)
    assert value("speedup_ci_low", ours).reason == "an interval needs 3 pairs of processes, there are 2"


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
