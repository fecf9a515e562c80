from __future__ import annotations

import pytest

from pipeline.metrics import latency, validity
from pipeline.readings import Side
from pipeline.records import Reading, known, missing


def test_a_quiet_record_is_valid(build):
    record = build.speed("int8")
    assert validity.record_reasons(record) == validity.memory_reasons(record) == []
    assert validity.workload_reasons(record.workloads[0]) == []
    assert validity.invalid([]) is None


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("foreign_gpu_processes", 1, "1 foreign process(es) on the GPU"),
        ("throttled_share", 0.25, "clocks were held down in 25.0 % of the requests"),
        ("swap_bytes", 20 * 2**20, "20 MiB of the worker were in swap"),
        ("idle_cpu_share", 0.051, "the idle process took CPU time of 5.1 % of the other's turns"),
    ],
)
def test_what_either_side_saw_makes_the_record_invalid(build, side, name, value, reason):
    processes = [build.process(), build.process(1, side, **{name: known(value)}), build.process(2)]
    assert validity.record_reasons(build.speed("int8", processes=processes)) == [reason]


@pytest.mark.parametrize(
    ("reason", "invalid"),
    [
        (validity.invalid(["2.00 MiB of the worker were in swap"]), True),
        ("benchmark invalid: parameters on the CPU", True),
        ("evaluate support-desk invalid: parameters on the CPU", True),
        ("benchmark failed: the settings are invalid: no such key", False),
        ("P95 needs 20 readings, there are 9", False),
    ],
)
def test_whether_a_reason_is_of_a_number_that_must_not_be_used(reason, invalid):
    assert validity.is_invalid(reason) is invalid


def test_several_reasons_are_all_said(build):
    processes = [build.process(swap_bytes=known(2**30)), build.process(1, throttled_share=known(1))]
    reasons = validity.record_reasons(build.speed("int8", processes=processes))
    assert validity.invalid(reasons) == (
        "INVALID: clocks were held down in 100.0 % of the requests; 1.00 GiB of the worker were in swap"
    )


def test_the_worst_process_speaks_for_all(build):
    processes = [build.process(number, idle_cpu_share=known(0.1 * number)) for number in (1, 3, 2)]
    assert "30.0 %" in validity.record_reasons(build.speed("int8", processes=processes))[0]


@pytest.mark.parametrize("share", [known(0.05), known(0), missing("the process was never idle")])
def test_what_is_allowed_or_unknown_is_no_violation(build, share):
    assert validity.record_reasons(build.speed("int8", processes=[build.process(idle_cpu_share=share)])) == []


def test_only_swap_of_the_variant_on_a_cpu_spoils_its_memory(build):
    ours, theirs = build.process(swap_bytes=known(2**30)), build.process(0, Side.BASELINE, swap_bytes=known(2**30))
    busy = build.process(
        idle_cpu_share=known(1), throttled_share=known(1), foreign_gpu_processes=known(1), swap_bytes=missing("-")
    )
    assert validity.memory_reasons(build.speed("int8", processes=[ours])) == ["1.00 GiB of the worker were in swap"]
    assert validity.memory_reasons(build.speed("int8", processes=[theirs, busy])) == []
    on_cuda = build.speed("int8", processes=[ours], engine=build.engine(device="cuda"))
    assert validity.memory_reasons(on_cuda) == []


def test_an_output_of_another_length_than_pinned_on_either_side(build):
    short = build.request(tokens=31)
    for ours, theirs in ((short, build.request()), (build.request(), short)):
        found = validity.workload_reasons(build.workload(pairs=build.pairs(ours, theirs)))
        assert found == ["an output of 31 tokens where 32 are pinned"]
    assert validity.workload_reasons(build.workload(pairs=build.pairs(build.request(), None))) == []


def spread_of(build, *tpot_s: float) -> latency.WorkloadSpeed:
    pairs = [pair for each in tpot_s for pair in build.pairs(build.request(tpot_s=each), None, 1, 1)]
    return latency.summarize(build.workload(pairs=pairs))


def test_decode_rates_that_spread_too_wide(build):
    # Rates 10, 20, 30, 40, 50: (40 - 20) / 30
    speed = spread_of(build, 1 / 10, 1 / 20, 1 / 30, 1 / 40, 1 / 50)
    assert validity.spread_reasons(speed, 0.5) == ["decode rates spread over 66.7 % of their median, 50.0 % is allowed"]
    assert validity.spread_reasons(speed, 0.67) == []
    assert validity.spread_reasons(speed, None) == []
    assert validity.spread_reasons(spread_of(build, 0.1, 1.0), 0.01) == [], "two readings have no spread"


def test_figures_of_an_invalid_workload_are_missing_but_for_the_spread(build):
    readings = build.workload(output_tokens=16)
    found = validity.checked(readings, 0.25, ["swapped"])
    wrong = "INVALID: swapped; an output of 32 tokens where 16 are pinned"
    figures = {name: value for name, value in vars(found).items() if isinstance(value, Reading)}
    assert figures.pop("decode_spread") == known(0)
    assert {figure.reason for figure in figures.values()} == {wrong}
    assert (found.workload, found.requests) == (readings.workload, 21)


def test_figures_of_a_valid_workload_are_kept(build):
    readings = build.workload()
    assert validity.checked(readings, 0.25) == latency.summarize(readings)
