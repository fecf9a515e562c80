from __future__ import annotations

from pathlib import Path
from typing import Any

import pynvml
import pytest
import torch
from unit.probes.fakes import UUID, FakeCuda, FakeNvml

from pipeline.probes import contention
from pipeline.records import Reading, known, missing

UNKNOWN = missing("NVML lists none of our processes (in a container their pids differ from the host's)")


def processes(*pids: int) -> list[tuple[int, int | None]]:
    return [(pid, 5) for pid in pids]


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize(
    ("computing", "drawing", "foreign"),
    [
        ([10], [], known(0)),
        ([10, 11], [], known(0)),
        ([10, 12], [], known(1)),
        ([10], [12], known(0)),  # a desktop
        ([10, 12], [12], known(1)),  # one process in both lists
        ([10, 12], [13], known(1)),
        ([], [], UNKNOWN),
        ([], [12], UNKNOWN),
        ([12, 13], [10], UNKNOWN),
        ([12], [], UNKNOWN),
        ([12, 13], [], UNKNOWN),
        ([12, 13, 14], [], known(1)),
        ([12, 13], [14, 15], UNKNOWN),
        ([12, 13, 14], [15], known(1)),
    ],
)
def test_computing_processes_that_are_not_ours_are_counted(
    monkeypatch: pytest.MonkeyPatch, computing: list[int], drawing: list[int], foreign: Reading
) -> None:
    nvml = FakeNvml(monkeypatch, processes(*computing), processes(*drawing))
    assert contention.foreign_gpu_processes("cuda", [10, 11]) == foreign
    assert nvml.asked == [f"GPU-{UUID}"]
    assert nvml.open == 0


R = pynvml


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize(
    ("reasons", "held_down"),
    [
        (R.nvmlClocksEventReasonNone, 0),
        (R.nvmlClocksEventReasonGpuIdle, 0),
        (R.nvmlClocksEventReasonSwPowerCap, 0),
        (R.nvmlClocksEventReasonApplicationsClocksSetting | R.nvmlClocksEventReasonSyncBoost, 0),
        (R.nvmlClocksEventReasonHwSlowdown, 1),
        (R.nvmlClocksEventReasonSwThermalSlowdown, 1),
        (R.nvmlClocksEventReasonHwThermalSlowdown, 1),
        (R.nvmlClocksEventReasonHwPowerBrakeSlowdown, 1),
        (R.nvmlClocksEventReasonSwPowerCap | R.nvmlClocksEventReasonHwThermalSlowdown, 1),
    ],
)
def test_heat_and_power_supply_throttle_but_the_boards_own_limit_does_not(
    monkeypatch: pytest.MonkeyPatch, reasons: int, held_down: int
) -> None:
    nvml = FakeNvml(monkeypatch, [], reasons=reasons)
    assert contention.throttled("cuda") == known(held_down)
    assert nvml.asked == [f"GPU-{UUID}"]
    assert nvml.open == 0


def foreign(device: str) -> Reading:
    return contention.foreign_gpu_processes(device, [1])


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("reading", [foreign, contention.throttled])
def test_an_nvml_error_is_the_reason_and_nvml_is_closed(monkeypatch: pytest.MonkeyPatch, reading: Any) -> None:
    nvml = FakeNvml(monkeypatch, [])
    nvml.error = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert reading("cuda") == missing("NVML: Not Supported")
    assert nvml.open == 0


@pytest.mark.parametrize("reading", [foreign, contention.throttled])
def test_on_the_cpu_nvml_is_not_asked(monkeypatch: pytest.MonkeyPatch, reading: Any) -> None:
    nvml = FakeNvml(monkeypatch, processes(12, 13))
    monkeypatch.setattr(torch, "cuda", FakeCuda(available=False))
    assert reading("cpu") == missing("the model runs on the CPU")
    assert nvml.asked == []


def test_the_throttle_counts_of_all_cores_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "CPUS", tmp_path)
    assert contention.cpu_throttle_count() == missing("the system does not tell whether its cores are throttled")
    for core, count in enumerate((4, 0, 38)):
        folder = tmp_path / f"cpu{core}" / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text(f"{count}\n")
        (folder / "package_throttle_count").write_text("1000\n")
    assert contention.cpu_throttle_count() == known(42)


def test_cores_that_were_never_throttled_count_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cpu0" / "thermal_throttle"
    folder.mkdir(parents=True)
    (folder / "core_throttle_count").write_text("0\n")
    monkeypatch.setattr(contention, "CPUS", tmp_path)
    assert contention.cpu_throttle_count() == known(0)
