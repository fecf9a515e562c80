from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.metrics import capacity
from pipeline.metrics.capacity import MemoryModel
from pipeline.readings import KvCache, LevelPeak, ProcessReading, Side
from pipeline.records import known, missing


def cache(measured_bytes: int, measured_tokens: int = 100) -> KvCache:
    """2 × 30 layers × 3 heads × 64 × 2 bytes = 23,040 bytes per token."""
    return KvCache(
        layers=30,
        kv_heads=3,
        head_dim=64,
        bytes_per_element=2,
        measured_tokens=measured_tokens,
        measured_bytes=measured_bytes,
    )


def test_bytes_per_token_by_the_config():
    assert capacity.kv_bytes_per_token(cache(2_304_000)) == capacity.CacheSize(23040, None)


def test_within_one_per_cent_config_and_measurement_agree():
    assert capacity.kv_bytes_per_token(cache(2_327_000)).bytes_per_token == 23040


def test_else_the_measured_size_is_used_and_said():
    found = capacity.kv_bytes_per_token(cache(1_152_000))
    assert found.bytes_per_token == 11520
    assert found.note == "measured: a cache of 100 tokens took 11,520 bytes each, not 23,040 as the config says"
    assert capacity.kv_bytes_per_token(cache(2_327_500)).bytes_per_token == 23275


def test_an_empty_cache_checks_nothing():
    found = capacity.kv_bytes_per_token(cache(0, 0))
    assert (found.bytes_per_token, found.note) == (23040, "not checked: the measured cache held no token")


def peak(tokens: int, peak_bytes: float | None, concurrency: int = 1) -> LevelPeak:
    reading = missing("not counted") if peak_bytes is None else known(peak_bytes)
    return LevelPeak(workload=f"w{tokens}", concurrency=concurrency, tokens=tokens, peak_bytes=reading)


def model(build, peaks, kv_bytes=1.0) -> MemoryModel:
    found = capacity.memory_model([build.process(peaks=[peak(*each) for each in peaks])], kv_bytes)
    assert isinstance(found, MemoryModel), found
    return found


def test_a_line_through_peaks_that_lie_on_one(build):
    # 1000 + 3 × tokens
    found = model(build, [(10, 1030), (20, 1060), (50, 1150)])
    assert (found.fixed_bytes, found.slope_bytes, found.largest_tokens) == pytest.approx((1000, 3, 50))
    assert found.cuda_context_bytes == 0


def test_no_measured_peak_is_under_predicted(build):
    # x̄ = 2, ȳ = 120; slope (-1 × -20 + 0 × 20 + 1 × 0) / 2 = 10. Lines of this slope through the points begin at 90,
    # 120 and 90; the highest is kept, where the least-squares line would begin at 100.
    found = model(build, [(1, 100), (2, 140), (3, 120)])
    assert (found.fixed_bytes, found.slope_bytes) == pytest.approx((120, 10))


def test_the_slope_is_at_least_that_of_the_cache(build):
    # Equal peaks have slope 0; the cache takes 5: 1000 - 5 × 10 is the least fixed part that covers both.
    found = model(build, [(10, 1000), (20, 1000)], kv_bytes=5)
    assert (found.fixed_bytes, found.slope_bytes) == pytest.approx((950, 5))


def test_the_largest_peak_over_the_variants_processes_counts(build):
    processes = [
        build.process(0, peaks=[peak(10, 1030), peak(20, 1000)]),
        build.process(1, peaks=[peak(10, 1000), peak(20, 1060), peak(30, None)]),
        build.process(0, Side.BASELINE, peaks=[peak(10, 9000), peak(20, 9000)]),
    ]
    found = capacity.memory_model(processes, 1)
    assert isinstance(found, MemoryModel)
    assert (found.fixed_bytes, found.slope_bytes, found.largest_tokens) == pytest.approx((1000, 3, 20))


def test_the_largest_peak_of_levels_of_one_size_counts(build):
    found = model(build, [(10, 1030, 2), (10, 1000), (20, 1060)])
    assert (found.fixed_bytes, found.slope_bytes) == pytest.approx((1000, 3))


def test_one_size_makes_no_line(build):
    processes = [build.process(peaks=[peak(10, 1030), peak(10, 1060, concurrency=2), peak(20, None)])]
    assert capacity.memory_model(processes, 1) == "a line through the peaks needs 2 sizes of request, there are 1"


LINE = MemoryModel(fixed_bytes=1000, slope_bytes=3, largest_tokens=50)


def test_what_fits():
    # (1960 - 1000) / 3 = 320 tokens: 320 for one user, 106 for each of three
    assert LINE.largest_context(1, 1960, 8192) == 320
    assert LINE.largest_context(3, 1960, 8192) == 106


def test_a_context_beyond_the_models_own_is_not_offered():
    assert LINE.largest_context(1, 1960, 256) == 256


def test_a_model_that_does_not_fit_serves_nobody():
    assert LINE.largest_context(1, 900, 8192) == 0


def test_the_cuda_context_takes_its_room():
    # (1960 - 360 - 1000) / 3 = 200 tokens
    assert replace(LINE, cuda_context_bytes=360).largest_context(1, 1960, 8192) == 200


def on_gpu(build, nvml: float | None, reserved: float | None, **changes) -> ProcessReading:
    made = build.process(**changes)
    read = {
        name: missing(f"no {name}") if value is None else known(value)
        for name, value in {"nvml_process_bytes": nvml, "allocator_reserved_peak_bytes": reserved}.items()
    }
    return made.model_copy(update={"memory": made.memory.model_copy(update=read)})


def test_the_cuda_context_is_what_nvml_sees_beyond_the_allocator(build):
    ours = [on_gpu(build, 700, 400), on_gpu(build, 810, 500), on_gpu(build, None, 100), on_gpu(build, 900, None)]
    theirs = on_gpu(build, 9000, 400, side=Side.BASELINE)
    assert capacity.cuda_context_bytes([*ours, theirs]) == known(310)
    assert capacity.cuda_context_bytes([on_gpu(build, 300, 400)]) == known(0)


def test_without_nvml_the_cuda_context_is_missing(build):
    assert capacity.cuda_context_bytes([on_gpu(build, None, 400)]) == missing("no nvml_process_bytes")
    assert capacity.cuda_context_bytes([]) == missing("no process was measured to its end")


def test_peaks_are_the_drivers_where_the_variants_processes_say_so(build):
    def made(by_driver: bool, side: Side) -> ProcessReading:
        found = on_gpu(build, 700, None, side=side)
        return found.model_copy(update={"memory": found.memory.model_copy(update={"peaks_by_driver": by_driver})})

    assert capacity.peaks_by_driver([made(False, Side.BASELINE), made(True, Side.VARIANT)])
    assert not capacity.peaks_by_driver([made(True, Side.BASELINE), made(False, Side.VARIANT)])
    assert not capacity.peaks_by_driver([])


def test_the_peak_over_levels_needs_every_one_of_them(build):
    processes = [build.process(peaks=[peak(10, 1030), peak(20, 1060), peak(30, None)])]
    assert capacity.peak_bytes(processes, [("w10", 1), ("w20", 1)]) == known(1060)
    assert capacity.peak_bytes(processes, [("w10", 1)]) == known(1030)
    assert capacity.peak_bytes(processes, [("w10", 1), ("w30", 1)]).reason == "no peak of w30 × 1: not counted"
    assert capacity.peak_bytes(processes, [("w40", 2)]).reason == "no peak of w40 × 2: it was not answered"
    assert capacity.peak_bytes(processes, []).reason == "no workload was run"
