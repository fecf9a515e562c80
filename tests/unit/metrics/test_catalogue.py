from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.metrics import catalogue, pairing
from pipeline.metrics.catalogue import BY_NAME, MAIN, METRICS
from pipeline.metrics.evidence import Serving
from pipeline.quality_records import FinishReason, Flaw
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


def test_what_is_wrong_with_the_answers_is_counted_over_all_sets(build):
    base = build.evidence("fp16", [1] * 4)
    sets = (
        build.scored(
            "int8",
            build.items([1, 0, 0, 1]),
            finish_reasons={FinishReason.STOP: 1, FinishReason.LENGTH: 2, FinishReason.CHOICE: 1},
            flaws={Flaw.EMPTY: 1, Flaw.REFUSAL: 2},
            over_context=["item-007", "item-008"],
        ),
        build.scored(
            "int8",
            build.items([1] * 5),
            "legal",
            finish_reasons={FinishReason.STOP: 5},
            flaws={Flaw.REFUSAL: 1, Flaw.DEGENERATE: 4},
            over_context=["item-009"],
        ),
    )
    ours = replace(build.evidence("int8", baseline=base), quality=sets)
    # A picked choice did not end in any way: 2 of 3 + 5
    assert value("length_finish_share", ours).value == 0.25
    names = ("empty_outputs", "refusals", "degenerate_outputs", "over_context_items")
    assert [value(name, ours).value for name in names] == [1, 3, 4, 3]
    assert [value(name, base).value for name in names] == [0] * 4


def test_answers_that_were_all_picked_have_no_length(build):
    picked = build.scored("int8", build.items([1, 0]), finish_reasons={FinishReason.CHOICE: 2})
    ours = replace(build.evidence("int8"), quality=(picked,))
    assert value("length_finish_share", ours).reason == "every answer was picked among choices"


def test_critical_items_that_were_lost(build):
    def answered(variant, scores):
        critical = [True, True, False, True]
        items = [build.item(f"item-{n}", score, critical=critical[n]) for n, score in enumerate(scores)]
        return (build.scored(variant, items),)

    base = replace(build.evidence("fp16"), quality=answered("fp16", [1, 1, 1, 0]))
    # Lost: one critical and one that is not; a critical one was won.
    ours = replace(build.evidence("int8", baseline=base), quality=answered("int8", [0, 1, 0, 1]))
    assert (value("critical_regressions", ours).value, value("flips_lost", ours).value) == (1, 2)
    assert value("critical_regressions", base).value == 0


def by_category(build, variant, sizes, **changes):
    """For each category as many lost items, and items in all."""
    items = [
        build.item(f"{category}-{n:03}", float(n >= lost), category=category)
        for category, (lost, count) in sizes.items()
        for n in range(count)
    ]
    return build.scored(variant, items, **changes)


def test_the_worst_category_is_a_metric_with_an_interval(build):
    sizes = {"refunds": (0, 30), "delivery": (0, 30)}
    base = replace(build.evidence("fp16"), quality=(by_category(build, "fp16", sizes),))
    lost = {"refunds": (6, 30), "delivery": (1, 30)}
    ours = replace(build.evidence("int8", baseline=base), quality=(by_category(build, "int8", lost),))
    assert value("worst_category_delta", ours).value == pytest.approx(-0.2)
    low, high = (value(f"worst_category_delta_ci_{end}", ours).value for end in ("low", "high"))
    found = ours.worst_category
    assert not isinstance(found, str)
    assert (low, high) == (found.interval.ci_low.value, found.interval.ci_high.value)
    assert low is not None
    assert high is not None
    assert low < -0.3 < high < 0
    ends = ("", "_ci_low", "_ci_high")
    assert [value(f"worst_category_delta{end}", base).value for end in ends] == [0, 0, 0]


def test_every_set_and_category_is_compared_with_the_baseline(build):
    base = build.evidence("fp16", [1, 1, 1, 0])
    ours = build.evidence("int8", [0, 1, 1, 0], baseline=base)
    assert base.comparisons == base.worst_category == "the baseline is not compared to itself"
    assert not isinstance(ours.comparisons, str)
    whole, *categories = ours.comparisons
    assert (whole.eval_set, whole.category, whole.n, whole.lost) == ("support-desk", None, 4, 1)
    assert {found.category for found in categories} == {"intent", "extraction", "policy"}
    lost = replace(ours, baseline=build.failed("fp16"))
    assert lost.comparisons == lost.worst_category == "fp16 was not scored on support-desk: there is no artifact"


def test_what_the_batch_alone_changes(build):
    base = build.evidence("fp16")
    ours = build.evidence("int8", baseline=base)
    floor, own = ours.noise_floor, base.noise_floor
    assert not isinstance(floor, str)
    assert not isinstance(own, str)
    assert (floor.items, floor.differing, own.items) == (48, 2, 24)
    assert replace(ours, baseline=build.failed("fp16")).noise_floor == (
        "fp16 was not scored on support-desk: there is no artifact"
    )


def near(build, **changes):
    """Half of 64 blocks cost 2.1 nats a token where the baseline's cost 2, and differ at 8 of 64 tokens."""
    blocks = [build.block(), build.block(2.1, 2.0, kld=0.04, agreed=56)] * 32
    record = build.fidelity("int8", blocks, **({"kld_p99": 0.5, "kld_max": 1.5} | changes))
    return replace(build.evidence("int8", baseline=build.evidence()), fidelity=record)


def test_how_near_a_variant_is_to_the_baseline(build):
    ours = near(build)
    # A mean of 0.05 more nats a token
    assert value("ppl_ratio", ours).value == pytest.approx(math.exp(0.05))
    assert value("perplexity", ours).value == pytest.approx(math.exp(2.05))
    assert value("kld_mean", ours).value == pytest.approx(0.02)
    assert value("top1_agreement", ours).value == pytest.approx(1 - 4 / 64)
    assert (value("kld_p99", ours).value, value("kld_max", ours).value) == (0.5, 1.5)
    # 64 blocks of 0 or 0.1: a standard error of 0.05 / 8
    for name, middle, half in (("kld_mean", 0.02, 0.0049), ("top1_agreement", 0.9375, 0.0153)):
        assert value(f"{name}_ci_low", ours).value == pytest.approx(middle - half, abs=half / 5)
        assert value(f"{name}_ci_high", ours).value == pytest.approx(middle + half, abs=half / 5)
    assert value("ppl_ratio_ci_low", ours).value == pytest.approx(math.exp(0.05 - 0.01225), abs=0.003)
    assert value("ppl_ratio_ci_high", ours).value == pytest.approx(math.exp(0.05 + 0.01225), abs=0.003)


def test_the_baseline_loaded_twice_is_measured_too(build):
    base = build.evidence()
    assert [value(name, base).value for name in ("ppl_ratio", "kld_mean", "kld_max", "top1_agreement")] == [1, 0, 0, 1]
    noisy = replace(base, fidelity=build.fidelity("fp16", [build.block(kld=0.001)] * 32, kld_max=0.002))
    assert value("kld_mean", noisy).value == pytest.approx(0.001)


def test_figures_of_the_text_that_could_not_be_had_say_why(build):
    failed = near(build, status=Status.FAILED, reason="killed")
    names = ("ppl_ratio", "kld_mean_ci_low", "top1_agreement", "perplexity", "kld_p99", "kld_max")
    assert {value(name, failed).reason for name in names} == {"fidelity failed: killed"}
    assert (failed.status, failed.reason) == (Status.FAILED, "fidelity: killed")
    short = near(build, kld_p99=None)
    assert value("kld_p99", short).reason == "P99 needs 100 tokens of text, there are 4096"
    alone = replace(short, fidelity=short.fidelity.model_copy(update={"blocks": []}))
    assert {value(name, alone).reason for name in names} == {"the baseline has no sound artifact to compare with"}
    assert alone.status is Status.OK


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
