from __future__ import annotations

import os
from types import SimpleNamespace

import pynvml
import pytest

from pipeline.probes import hardware
from pipeline.records import Gpu


def fake_nvml(monkeypatch: pytest.MonkeyPatch, gpus: list[tuple[str, int]]) -> list[str]:
    """An NVML with these GPUs (name, memory); returns the list of its openings and closings."""
    log: list[str] = []
    fakes = {
        "Init": lambda: log.append("open"),
        "Shutdown": lambda: log.append("close"),
        "SystemGetDriverVersion": lambda: "570.86",
        "DeviceGetCount": lambda: len(gpus),
        "DeviceGetHandleByIndex": lambda index: index,
        "DeviceGetName": lambda handle: gpus[handle][0],
        "DeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=gpus[handle][1], free=0, used=0),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(pynvml, f"nvml{name}", fake)
    return log


def test_every_gpu_is_listed_with_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_nvml(monkeypatch, [("NVIDIA H200", 150_754_820_096), ("NVIDIA L4", 24_152_899_584)])
    found, reason = hardware.gpus()
    assert found == [
        Gpu(name="NVIDIA H200", memory_bytes=150_754_820_096, driver="570.86"),
        Gpu(name="NVIDIA L4", memory_bytes=24_152_899_584, driver="570.86"),
    ]
    assert reason is None
    assert log == ["open", "close"]


def test_a_driver_without_gpus_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_nvml(monkeypatch, [])
    assert hardware.gpus() == ([], "NVML sees no GPU")
    assert log == ["open", "close"]


def test_a_machine_without_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    assert hardware.gpus() == ([], "NVML: NVML Shared Library Not Found")


def test_an_error_after_opening_is_told_and_nvml_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_nvml(monkeypatch, [("NVIDIA L4", 1)])

    def lost(_: int) -> str:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lost)
    assert hardware.gpus() == ([], "NVML: GPU is lost")
    assert log == ["open", "close"]


def test_this_machine_has_a_name_cores_and_memory() -> None:
    assert hardware.cpu_name().strip()
    assert 1 <= hardware.cpu_cores() <= (os.cpu_count() or 1)
    assert hardware.memory_bytes() > 2**28


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no CPU affinity")
def test_only_cores_that_this_process_may_use_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 7})
    assert hardware.cpu_cores() == 3
