from __future__ import annotations

from dataclasses import replace

import pytest
from unit.metrics.catalogued import value

from pipeline.metrics.evidence import Serving
from pipeline.records import known


def swept(build, **changes):
    """The headline workload, of 2 streams in params.yaml, at 1, 2 and 4."""
    workloads = [build.workload(concurrency=streams, tpot_s=0.04 + 0.01 * streams) for streams in (1, 2, 4)]
    peaks = [build.peak(workload, 1000 * workload.concurrency) for workload in workloads]
    speed = build.speed("int8", workloads, processes=[build.process(number, peaks=peaks) for number in range(3)])
    ours = build.evidence("int8", baseline=build.evidence())
    return replace(ours, speed=speed, concurrency={"instruction": 2}, **changes)


def test_levels_of_the_sweep_do_not_mix_with_the_workload(build):
    ours = swept(build)
    # 32 tokens: 0.1 + 31 × 0.06 = 1.96 s at 2 streams
    assert value("decode_tokens_per_s", ours).value == pytest.approx(1 / 0.06)
    assert value("aggregate_tokens_per_s", ours).value == pytest.approx(64 / 1.96)
    assert value("goodput_requests_per_s", ours).value == pytest.approx(2 / 1.96)
    assert value("speedup", ours).value == pytest.approx(0.05 / 0.06)
    assert value("peak_memory_bytes", ours).value == 2000
    assert value("cost_per_passing_answer", ours).value == pytest.approx(0.0001 * 1.96 / 2 / 0.75)


def test_figures_of_the_sweep(build):
    # 0.1 + 31 × 0.05, 0.06, 0.08 = 1.65, 1.96, 2.58 s: rates 19.4, 32.7, 49.6; powers 11.8, 16.7, 19.2
    ours = swept(build)
    assert value("knee_concurrency", ours).value == 4
    assert value("best_aggregate_tokens_per_s", ours).value == pytest.approx(128 / 2.58)
    unswept = swept(build, sweep_workload=None)
    assert value("knee_concurrency", unswept).reason == "no workload was swept over concurrencies"
    assert value("knee_concurrency", build.evidence()).reason == "fewer than two levels can be compared"


def test_the_cuda_context_takes_room_on_a_gpu_alone_and_where_no_peak_holds_it(build):
    ours = swept(build)
    on_gpu = {
        "nvml_process_bytes": known(500 * 2**20),
        "allocator_reserved_peak_bytes": known(100 * 2**20),
    }

    def context(device: str, peaks_by_driver: bool = False) -> float:
        read = {**on_gpu, "peaks_by_driver": peaks_by_driver}
        processes = [
            process.model_copy(update={"memory": process.memory.model_copy(update=read)})
            for process in ours.speed.processes
        ]
        changes = {"processes": processes, "engine": build.engine(device=device)}
        model = replace(ours, speed=ours.speed.model_copy(update=changes)).memory_model
        assert not isinstance(model, str)
        return model.cuda_context_bytes

    assert (context("cuda"), context("cpu"), context("cuda", peaks_by_driver=True)) == (400 * 2**20, 0, 0)


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


def test_swapped_memory_has_no_peak(build):
    ours = build.evidence("int8")
    swapped = [build.process(peaks=ours.speed.processes[0].peaks, swap_bytes=known(2**30))]
    ours = replace(ours, speed=ours.speed.model_copy(update={"processes": swapped}))
    assert value("peak_memory_bytes", ours).reason == "INVALID: 1.00 GiB of the worker were in swap"
    assert ours.memory_model == "INVALID: 1.00 GiB of the worker were in swap"
