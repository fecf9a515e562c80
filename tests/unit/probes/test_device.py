"""The CUDA readings on a fake torch.cuda and a fake NVML; tests/gpu holds those on a real device."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
import torch

from pipeline.errors import UserError
from pipeline.probes import device
from pipeline.records import Reading, known, missing

UUID = "11111111-2222-3333-4444-555555555555"


class FakeCuda:
    """What the probes use of torch.cuda; counts the calls that act."""

    def __init__(self, uuid: str = UUID, available: bool = True) -> None:
        self.calls: list[str] = []
        self._uuid = uuid
        self._available = available

    def is_available(self) -> bool:
        return self._available

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def reset_peak_memory_stats(self) -> None:
        self.calls.append("reset")

    def max_memory_allocated(self) -> int:
        return 1000

    def max_memory_reserved(self) -> int:
        return 2000

    def current_device(self) -> int:
        return 1

    def get_device_properties(self, index: int) -> SimpleNamespace:
        assert index == 1
        return SimpleNamespace(uuid=self._uuid)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setattr(torch, "cuda", fake)
    return fake


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "cuda", FakeCuda(available=False))


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


def test_only_cuda_is_waited_for_and_reset(cuda: FakeCuda) -> None:
    device.synchronise("cpu")
    device.reset_peak("cpu")
    assert cuda.calls == []
    device.synchronise("cuda")
    device.reset_peak("cuda")
    assert cuda.calls == ["synchronize", "reset"]


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


class FakeNvml:
    """NVML with one GPU that lists the given processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, processes: list[tuple[int, int | None]]) -> None:
        self.open = 0
        self.asked: list[str] = []
        self._processes = processes
        self.error: pynvml.NVMLError | None = None
        for name in ("Init", "Shutdown", "DeviceGetHandleByUUID", "DeviceGetComputeRunningProcesses"):
            monkeypatch.setattr(pynvml, f"nvml{name}", getattr(self, name))

    def Init(self) -> None:
        self.open += 1

    def Shutdown(self) -> None:
        self.open -= 1

    def DeviceGetHandleByUUID(self, uuid: str) -> str:
        self.asked.append(uuid)
        return "handle"

    def DeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        assert handle == "handle"
        if self.error:
            raise self.error
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self._processes]


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
