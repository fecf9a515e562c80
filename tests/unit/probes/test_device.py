"""The CUDA readings on a fake torch.cuda and a fake NVML; tests/gpu holds those on a real device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pynvml
import pytest
import torch
from unit.probes.fakes import MIB, UUID, FakeCuda, FakeNvml

from pipeline.errors import UserError
from pipeline.probes import device, hardware, process
from pipeline.records import Reading, known, missing


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize(("asked", "got"), [("auto", "cuda"), ("cuda", "cuda"), ("cpu", "cpu")])
def test_with_a_gpu_auto_takes_it_and_cpu_does_not(asked: str, got: str) -> None:
    assert device.resolve(asked) == got


@pytest.mark.usefixtures("no_cuda")
def test_without_a_gpu_auto_is_the_cpu_and_cuda_is_a_users_mistake() -> None:
    assert device.resolve("auto") == "cpu"
    assert device.resolve("cpu") == "cpu"
    with pytest.raises(UserError, match=r"runtime\.device is cuda, but torch .* sees no GPU; set it to auto or cpu"):
        device.resolve("cuda")


def test_only_cuda_is_waited_for(cuda: FakeCuda) -> None:
    device.synchronise("cpu")
    assert cuda.calls == []
    device.synchronise("cuda")
    assert cuda.calls == ["synchronize"]


def test_marks_are_events_on_cuda_and_nothing_on_the_cpu(cuda: FakeCuda) -> None:
    assert device.mark("cpu") is None
    assert cuda.calls == []
    assert device.mark("cuda") is not None
    assert cuda.calls == ["record"]


def test_the_time_between_marks_is_in_seconds_and_waits_for_the_second(cuda: FakeCuda) -> None:
    start = device.mark("cuda")
    cuda.calls.extend(["work"] * 499)
    end = device.mark("cuda")
    assert device.between_s(start, end) == 0.5
    assert cuda.calls[-1] == "reached"


def test_the_peak_of_a_gpu_is_what_the_allocator_reserved(cuda: FakeCuda) -> None:
    assert device.reset_peak("cuda") is True
    assert cuda.calls == ["reset"]
    assert device.peak_bytes("cuda") == known(2000)


@pytest.mark.usefixtures("cuda")
def test_on_a_gpu_the_peak_of_the_process_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "CLEAR_REFS", tmp_path / "clear_refs")
    device.reset_peak("cuda")
    assert not (tmp_path / "clear_refs").exists()


def test_the_peak_of_the_cpu_is_that_of_the_process(
    cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CLEAR_REFS", tmp_path / "clear_refs")
    monkeypatch.setattr(process, "STATUS", tmp_path / "status")
    (tmp_path / "status").write_text("VmHWM:\t   3 kB\n")
    assert device.reset_peak("cpu") is True
    assert (tmp_path / "clear_refs").read_text() == "5"
    assert device.peak_bytes("cpu") == known(3072)
    assert cuda.calls == []
    monkeypatch.setattr(process, "CLEAR_REFS", tmp_path / "no" / "such")
    assert device.reset_peak("cpu") is False


@pytest.mark.usefixtures("cuda")
def test_what_is_free_is_asked_of_the_device_or_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "available_bytes", lambda: 77)
    assert device.free_bytes("cuda") == known(800 * MIB)
    assert device.free_bytes("cpu") == known(77)


def test_memory_is_given_back_where_there_is_a_gpu(cuda: FakeCuda) -> None:
    device.release_memory()
    assert cuda.calls == ["empty"]


def test_without_a_gpu_giving_memory_back_does_nothing() -> None:
    device.release_memory()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: not enough memory: you tried to …"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be …"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_short_memory_is_told_from_other_errors(error: BaseException) -> None:
    assert device.is_out_of_memory(error)


def test_torchs_own_error_on_the_cpu_is_short_memory() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**50, dtype=torch.uint8)
    assert device.is_out_of_memory(raised.value)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        RuntimeError("CUDA error: device-side assert triggered"),
        ValueError("DefaultCPUAllocator: can't allocate memory"),
        KeyboardInterrupt(),
    ],
)
def test_other_errors_are_not_short_memory(error: BaseException) -> None:
    assert not device.is_out_of_memory(error)


@pytest.mark.usefixtures("cuda")
def test_the_allocators_two_peaks_are_not_mixed_up() -> None:
    assert device.allocator_peak_bytes("cuda") == known(1000)
    assert device.allocator_reserved_peak_bytes("cuda") == known(2000)


@pytest.mark.parametrize(
    "reading", [device.allocator_peak_bytes, device.allocator_reserved_peak_bytes, device.nvml_process_bytes]
)
def test_on_the_cpu_device_memory_is_missing_with_a_reason(reading: Any) -> None:
    assert reading("cpu") == missing("the model runs on the CPU")


def test_threads_are_set_on_the_cpu_only() -> None:
    before = torch.get_num_threads()
    try:
        device.set_threads("cpu", 1)
        assert torch.get_num_threads() == 1
        device.set_threads("cuda", 2)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_one_seed_gives_the_same_numbers() -> None:
    device.seed(3)
    first = torch.rand(4)
    device.seed(3)
    assert torch.equal(first, torch.rand(4))


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize(
    ("processes", "reading"),
    [
        ([(1, 111), (os.getpid(), 222)], known(222)),
        ([(os.getpid(), 0)], known(0)),
        ([(os.getpid(), None)], missing("the driver does not tell memory per process")),
        (
            [(os.getpid() + 1, 111)],
            missing("NVML does not list this process (in a container its pid differs from the host's)"),
        ),
        ([], missing("NVML does not list this process (in a container its pid differs from the host's)")),
    ],
)
def test_nvml_tells_the_memory_of_this_process_alone(
    monkeypatch: pytest.MonkeyPatch, processes: list[tuple[int, int | None]], reading: Reading
) -> None:
    nvml = FakeNvml(monkeypatch, processes)
    assert device.nvml_process_bytes("cuda") == reading
    assert nvml.asked == [f"GPU-{UUID}"]
    assert nvml.open == 0


def test_a_uuid_that_has_its_prefix_gets_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "cuda", FakeCuda(uuid=f"GPU-{UUID}"))
    nvml = FakeNvml(monkeypatch, [(os.getpid(), 5)])
    assert device.nvml_process_bytes("cuda") == known(5)
    assert nvml.asked == [f"GPU-{UUID}"]


@pytest.mark.usefixtures("cuda")
def test_an_nvml_error_is_the_reason_and_nvml_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(monkeypatch, [])
    nvml.error = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    found = device.nvml_process_bytes("cuda")
    assert found.value is None
    assert found.reason == "NVML: Not Supported"
    assert nvml.open == 0


@pytest.mark.usefixtures("cuda")
def test_a_missing_driver_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    assert device.nvml_process_bytes("cuda") == missing("NVML: NVML Shared Library Not Found")
