"""What fits: 1 GiB of fixed part, 1 MiB for each token in flight, 4 GiB of memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthetic import MIB

from pipeline.metrics.evidence import Serving
from pipeline.readings import KvCache, LevelPeak, MemoryReadings, Side
from pipeline.records import Status, known, missing
from pipeline.report.breakdown import memory

GIB = 2**30


def peaks(*sizes: tuple[int, int]) -> list[LevelPeak]:
    """Of streams and tokens in flight, on the line of 1 GiB + 1 MiB a token."""
    return [
        LevelPeak(workload="instruction", concurrency=streams, tokens=tokens, peak_bytes=known(GIB + tokens * MIB))
        for streams, tokens in sizes
    ]


@pytest.fixture
def ours(build, measured):
    def make(*, variant="fp16", levels=((1, 232), (8, 1856)), **changes):
        found = peaks(*levels)
        workloads = [build.workload(concurrency=streams) for streams, _ in levels]
        fields = {"processes": [build.process(peaks=found)], "context_length": 2048}
        return measured(variant, *workloads, **(fields | changes))

    return make


def test_the_largest_context_of_each_user(gathered, ours):
    # 3 GiB are 3072 tokens: cut at the model's 2048, of 2, 4, … users 1536, 768, 384, 192, 96. 1856 were measured.
    _, found = gathered(ours())
    assert [(line.label, line.cells[0].text) for line in memory.contexts(found)] == [
        ("1", "2,048†"),
        ("2", "1,536†"),
        ("4", "768†"),
        ("8", "384†"),
        ("16", "192†"),
        ("32", "96†"),
    ]
    assert list(memory.notes(found)) == [
        "† extrapolated beyond the largest measured size, 1,856 tokens in flight",
        "no context is longer than the model's own, 2,048 tokens",
    ]


def test_what_was_measured_is_not_marked(gathered, ours, project):
    project.raw["serving"]["memory_gib"] = 2.5
    _, found = gathered(ours())
    # 1.5 GiB are 1536 tokens, less than the 1856 that were measured.
    assert [line.cells[0].text for line in memory.contexts(found)] == ["1,536", "768", "384", "192", "96", "48"]


def test_a_model_that_does_not_fit_is_told(gathered, ours, project):
    project.raw["serving"]["memory_gib"] = 0.5
    _, found = gathered(ours())
    assert {line.cells[0].text for line in memory.contexts(found)} == {"none"}


def test_sizes_and_the_line_through_the_peaks(gathered, ours):
    _, found = gathered(ours())
    assert {line.label: line.cells[0].text for line in memory.sizes(found)} == {
        "Weights on disk": "257 MiB",
        "Weights as loaded": "257 MiB",
        "KV cache per token": "22.5 KiB",
        "Fixed part of a peak": "1.00 GiB",
        "Part of a peak per token": "1024.0 KiB",
        "Process, while loading": "2.81 GiB",
        "Process, while running": "2.81 GiB",
    }
    assert [(line.label, line.cells[0].text) for line in memory.peaks(found)] == [
        ("instruction, 232 tokens", "1.23 GiB"),
        ("instruction × 8, 1,856 tokens", "2.81 GiB"),
    ]
    assert memory.kind(found) == "the worker's resident set, libraries included"


def test_the_baselines_processes_do_not_count(gathered, ours, build):
    other = build.process(side=Side.BASELINE, peaks=peaks((1, 4000)))
    _, found = gathered(ours(processes=[build.process(peaks=peaks((1, 232), (8, 1856))), other]))
    sizes = {line.label: line.cells[0].text for line in memory.sizes(found)}
    assert sizes["Process, while running"] == "2.81 GiB"


def test_a_cache_that_is_not_as_the_config_says_is_noted(gathered, ours):
    cache = KvCache(
        layers=30, kv_heads=3, head_dim=64, bytes_per_element=2, measured_tokens=10, measured_bytes=10 * 2**10
    )
    _, found = gathered(ours(kv_cache=cache))
    assert next(memory.notes(found)) == (
        "KV cache of fp16: measured: a cache of 10 tokens took 1,024 bytes each, not 23,040 as the config says"
    )
    assert memory.sizes(found)[2].cells[0].text == "1.0 KiB"


def test_swapped_memory_is_not_shown_on_a_cpu(gathered, ours, build):
    swapped = build.process(peaks=peaks((1, 232)), swap_bytes=known(MIB))
    _, found = gathered(ours(levels=((1, 232),), processes=[swapped]))
    assert memory.peaks(found)[0].cells[0].text == "INVALID"
    assert {line.label: line.cells[0].text for line in memory.sizes(found)} == {
        "Weights on disk": "257 MiB",
        "Weights as loaded": "257 MiB",
        "KV cache per token": "22.5 KiB",
        **dict.fromkeys(
            (
                "Fixed part of a peak",
                "Part of a peak per token",
                "Process, while loading",
                "Process, while running",
            ),
            "INVALID",
        ),
    }


def on_gpu(build, **changes):
    memory_of = MemoryReadings(
        weight_bytes=known(257 * MIB),
        process_load_peak_bytes=known(900 * MIB),
        process_run_peak_bytes=known(901 * MIB),
        allocator_peak_bytes=known(300 * MIB),
        allocator_reserved_peak_bytes=known(400 * MIB),
        nvml_process_bytes=known(700 * MIB),
    )
    fields = {"memory": memory_of, "foreign_gpu_processes": known(0), "throttled_share": known(0)}
    return build.process(**(fields | changes))


def test_a_gpu_has_allocator_peaks_and_nvml(ours, build):
    processes = [on_gpu(build, peaks=peaks((1, 232)))]
    found = [ours(levels=((1, 232),), processes=processes, engine=build.engine(device="cuda"))]
    sizes = {line.label: line.cells[0].text for line in memory.sizes(found)}
    assert sizes["Allocated on the GPU"] == "300 MiB"
    assert sizes["Reserved on the GPU"] == "400 MiB"
    assert sizes["Process on the GPU, by NVML"] == "700 MiB"
    assert sizes["CUDA context"] == "300 MiB"
    assert sizes["Process, while running"] == "901 MiB"
    assert "allocator had reserved" in memory.kind(found)
    assert list(memory.strangers(found)) == []


def by_driver(build, **changes):
    read = {
        "allocator_peak_bytes": missing("past torch"),
        "allocator_reserved_peak_bytes": missing("past torch"),
        "peaks_by_driver": True,
    }
    made = on_gpu(build, **changes)
    return made.model_copy(update={"memory": made.memory.model_copy(update=read)})


def test_peaks_by_the_driver_hold_the_cuda_context(ours, build):
    processes = [by_driver(build, peaks=peaks((1, 232), (8, 1856)))]
    cuda = build.engine(device="cuda")
    [told] = [replace(ours(processes=processes, engine=cuda), serving=Serving(memory_gib=2))]
    sizes = {line.label: line.cells[0] for line in memory.sizes([told])}
    assert (sizes["CUDA context"].text, sizes["CUDA context"].reason) == ("–", "the peaks hold it")
    assert (sizes["Reserved on the GPU"].text, sizes["Reserved on the GPU"].reason) == ("–", "past torch")
    assert sizes["Process on the GPU, by NVML"].text == "700 MiB"
    assert memory.contexts([told])[0].cells[0].text == "1,024"
    assert not any("CUDA context" in note for note in memory.notes([told]))
    assert memory.kind([told]) == "NVML's figure for the process, the CUDA context included"


def test_peaks_that_are_not_of_the_same_memory_are_told_apart(ours, build):
    cuda = build.engine(device="cuda")
    theirs, told = ours(processes=[on_gpu(build)], engine=cuda), ours(processes=[by_driver(build)], engine=cuda)
    told = replace(told, variant="gguf")
    assert memory.kind([theirs, told]) == (
        "the most that the allocator had reserved on the GPU; the CUDA context comes on top, as in NVML's figure "
        "(of gguf: NVML's figure for the process, the CUDA context included)"
    )


def gpu_fits(ours, build, **changes):
    """The largest context of one user and the notes: 1 GiB of fixed part and 1 MiB a token in 2 GiB."""
    processes = [on_gpu(build, peaks=peaks((1, 232), (8, 1856)), **changes)]
    found = [replace(ours(processes=processes, engine=build.engine(device="cuda")), serving=Serving(memory_gib=2))]
    return memory.contexts(found)[0].cells[0].text, list(memory.notes(found))


def test_what_fits_on_a_gpu_leaves_room_for_the_cuda_context(ours, build):
    largest, notes = gpu_fits(ours, build)
    assert largest == "724", "1024 without the context of 300 MiB"
    assert "what fits of fp16 leaves room for its CUDA context, 300 MiB" in notes
    unseen = on_gpu(build).memory.model_copy(update={"nvml_process_bytes": missing("NVML does not list it")})
    largest, notes = gpu_fits(ours, build, memory=unseen)
    assert largest == "1,024"
    assert "what fits of fp16 is without its CUDA context, which comes on top: NVML does not list it" in notes


def test_another_process_on_the_gpu_is_told(ours, build):
    processes = [on_gpu(build), on_gpu(build, foreign_gpu_processes=known(1))]
    found = [ours(processes=processes, engine=build.engine(device="cuda"))]
    assert list(memory.strangers(found)) == ["another process was on the GPU while fp16 was measured"]


def test_a_failed_variant_says_why(gathered, ours, build):
    _, found = gathered(ours(), build.failed("int8"))
    cells = [line.cells[1] for line in (*memory.sizes(found), *memory.peaks(found), *memory.contexts(found))]
    assert {cell.text for cell in cells} == {"–"}
    assert all(cell.reason for cell in cells)


def test_an_unknown_reading_keeps_its_reason(gathered, ours, build):
    unread = build.process(peaks=peaks((1, 232))).memory.model_copy(
        update={"process_run_peak_bytes": missing("the system did not tell")}
    )
    _, found = gathered(ours(levels=((1, 232),), processes=[build.process(peaks=peaks((1, 232)), memory=unread)]))
    cell = next(line.cells[0] for line in memory.sizes(found) if line.label == "Process, while running")
    assert (cell.text, cell.reason) == ("–", "the system did not tell")
    assert found[0].status is Status.OK
