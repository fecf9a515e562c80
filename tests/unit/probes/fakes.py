"""A torch.cuda and an NVML of which the tests say what they answer; tests/gpu asks a real device."""

from __future__ import annotations

from types import SimpleNamespace

import pynvml
import pytest

UUID = "11111111-2222-3333-4444-555555555555"
MIB = 2**20


class FakeEvent:
    """A CUDA event whose time is the number of calls made before it was recorded, in ms."""

    def __init__(self, calls: list[str], enable_timing: bool = False) -> None:
        assert enable_timing
        self._calls = calls
        self._at_ms: float | None = None

    def record(self) -> None:
        self._at_ms = float(len(self._calls))
        self._calls.append("record")

    def synchronize(self) -> None:
        self._calls.append("reached")

    def elapsed_time(self, end: FakeEvent) -> float:
        assert self._at_ms is not None
        assert end._at_ms is not None
        assert self._calls[-1] == "reached"
        return end._at_ms - self._at_ms


class FakeCuda:
    """What the probes use of torch.cuda; logs the calls that act."""

    def __init__(self, uuid: str = UUID, available: bool = True, free: int = 800 * MIB) -> None:
        self.calls: list[str] = []
        self._uuid = uuid
        self._available = available
        self._free = free

    def is_available(self) -> bool:
        return self._available

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def reset_peak_memory_stats(self) -> None:
        self.calls.append("reset")

    def empty_cache(self) -> None:
        self.calls.append("empty")

    def Event(self, enable_timing: bool = False) -> FakeEvent:
        return FakeEvent(self.calls, enable_timing)

    def max_memory_allocated(self) -> int:
        return 1000

    def max_memory_reserved(self) -> int:
        return 2000

    def mem_get_info(self) -> tuple[int, int]:
        return self._free, 24_000 * MIB

    def current_device(self) -> int:
        return 1

    def get_device_properties(self, index: int) -> SimpleNamespace:
        assert index == 1
        return SimpleNamespace(uuid=self._uuid)


class FakeNvml:
    """An NVML with one GPU and these processes (pid, bytes); counts its openings and notes what it is asked."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        computing: list[tuple[int, int | None]],
        drawing: list[tuple[int, int | None]] | None = None,
        reasons: int = 0,
    ) -> None:
        self.open = 0
        self.asked: list[str] = []
        self._computing = computing
        self._drawing = drawing or []
        self._reasons = reasons
        self.error: pynvml.NVMLError | None = None
        for name in (
            "Init",
            "Shutdown",
            "DeviceGetHandleByUUID",
            "DeviceGetComputeRunningProcesses",
            "DeviceGetGraphicsRunningProcesses",
            "DeviceGetCurrentClocksEventReasons",
        ):
            monkeypatch.setattr(pynvml, f"nvml{name}", getattr(self, name))

    def Init(self) -> None:
        self.open += 1

    def Shutdown(self) -> None:
        self.open -= 1

    def DeviceGetHandleByUUID(self, uuid: str) -> str:
        self.asked.append(uuid)
        return "handle"

    def DeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        return self._listed(handle, self._computing)

    def DeviceGetGraphicsRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        return self._listed(handle, self._drawing)

    def DeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        self._check(handle)
        return self._reasons

    def _listed(self, handle: str, processes: list[tuple[int, int | None]]) -> list[SimpleNamespace]:
        self._check(handle)
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in processes]

    def _check(self, handle: str) -> None:
        assert handle == "handle"
        assert self.open == 1
        if self.error:
            raise self.error
