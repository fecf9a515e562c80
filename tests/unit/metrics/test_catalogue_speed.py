from __future__ import annotations

from dataclasses import replace

import pytest
from unit.metrics.catalogued import value

from pipeline.metrics import pairing
from pipeline.readings import Side
from pipeline.records import known

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


def test_two_pairs_of_processes_have_a_speedup_without_an_interval(build):
    pairs = build.pairs(build.request(), build.request(), processes=2)
    ours = build.evidence("int8", baseline=build.evidence())
    ours = replace(ours, speed=build.speed("int8", [build.workload(pairs=pairs)]))
    assert value("speedup", ours).value == pytest.approx(1)
    assert value("speedup_ci_low", ours).reason == "an interval needs 3 pairs of processes, there are 2"


def test_work_per_token_is_device_time_where_there_is_some(build):
    on_cuda = build.request(tpot_s=0.05, device_s=(0.1, 0.1 + 31 * 0.04))
    speed = build.speed("fp16", [build.workload(pairs=build.pairs(on_cuda, on_cuda))])
    assert value("decode_cost_s_per_token", replace(build.evidence(), speed=speed)).value == pytest.approx(0.04)


def test_speed_is_that_of_the_headline_workload_alone(build):
    workloads = [build.workload("long", tpot_s=9.0), build.workload(tpot_s=0.025)]
    ours = replace(build.evidence("int8", baseline=build.evidence()), speed=build.speed("int8", workloads))
    assert value("decode_tokens_per_s", ours).value == pytest.approx(40)
    assert value("speedup", ours).value == pytest.approx(2)


def test_load_time_is_the_median_of_the_variants_processes(build):
    loads = [build.process(number, load_s=load_s) for number, load_s in enumerate((1.0, 9.0, 2.0))]
    loads += [build.process(number, Side.BASELINE, load_s=0.1) for number in range(5)]
    ours = replace(build.evidence("int8"), speed=build.speed("int8", processes=loads))
    assert value("load_s", ours).value == 2


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
