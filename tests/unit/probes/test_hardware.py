from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pynvml
import pytest

from pipeline.probes import hardware
from pipeline.records import Gpu, known, missing

UUIDS = ["GPU-aaaa1111", "GPU-aaaa2222", "GPU-bbbb3333"]


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
        "DeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=gpus[handle][1], free=gpus[handle][1] - 7, used=7),
        "DeviceGetUUID": lambda handle: UUIDS[handle],
        "DeviceGetHandleByUUID": ["MIG-0", "MIG-cccc"].index,
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


GPUS = [("one", 1007), ("two", 2007), ("three", 3007)]


@pytest.mark.parametrize(
    ("visible", "free"),
    [
        (None, 1000),
        ("0", 1000),
        ("2", 3000),
        ("1,0", 2000),
        (" 1 , 2", 2000),
        ("GPU-bbbb3333", 3000),
        ("GPU-aaaa2,GPU-bbbb3333", 2000),
        ("GPU-aaaa", 1000),
        ("MIG-cccc", 2000),
    ],
)
def test_free_memory_is_that_of_the_first_visible_gpu(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, free: int
) -> None:
    log = fake_nvml(monkeypatch, GPUS)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware.gpu_free_bytes() == known(free)
    assert log == ["open", "close"]


@pytest.mark.parametrize("visible", ["", "-1", "3", "GPU-dddd", "NoDevFiles", "GPU"])
def test_hidden_gpus_have_no_free_memory(monkeypatch: pytest.MonkeyPatch, visible: str) -> None:
    log = fake_nvml(monkeypatch, GPUS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware.gpu_free_bytes() == missing("NVML sees no GPU that CUDA_VISIBLE_DEVICES leaves in sight")
    assert log == ["open", "close"]


def test_without_driver_there_is_no_free_gpu_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    assert hardware.gpu_free_bytes() == missing("NVML: NVML Shared Library Not Found")


def test_the_first_visible_gpu_tells_its_compute_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_nvml(monkeypatch, GPUS)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", [(7, 5), (8, 9), (12, 0)].__getitem__)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert hardware.compute_capability() == known(8.9)
    assert log == ["open", "close"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert hardware.compute_capability() == missing("NVML sees no GPU that CUDA_VISIBLE_DEVICES leaves in sight")


@pytest.mark.parametrize(("number", "version"), [(12080, 12.8), (13000, 13.0), (11040, 11.4)])
def test_the_driver_tells_the_cuda_version_it_runs(
    monkeypatch: pytest.MonkeyPatch, number: int, version: float
) -> None:
    fake_nvml(monkeypatch, GPUS)
    monkeypatch.setattr(pynvml, "nvmlSystemGetCudaDriverVersion_v2", lambda: number)
    assert hardware.driver_cuda_version() == known(version)


def test_without_driver_neither_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    gone = missing("NVML: NVML Shared Library Not Found")
    assert hardware.compute_capability() == hardware.driver_cuda_version() == gone


def test_some_of_the_memory_is_available() -> None:
    assert 2**20 < hardware.available_bytes() <= hardware.memory_bytes()


MACHINE = 9000


def cgroups(monkeypatch: pytest.MonkeyPatch, folder: Path, own: str, files: dict[str, str]) -> None:
    """A machine with 9000 bytes available where /proc/self/cgroup says `own` and /sys/fs/cgroup has these files."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=MACHINE))
    monkeypatch.setattr(hardware, "OWN_CGROUPS", folder / "own")
    monkeypatch.setattr(hardware, "CGROUPS", folder / "mounted")
    (folder / "own").write_text(own)
    for name, text in files.items():
        path = folder / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def version_2(group: str, limit: int | str, usage: int, cache: tuple[int, int] = (0, 0)) -> dict[str, str]:
    stat = f"anon 5\nfile 77\ninactive_file {cache[0]}\nactive_file {cache[1]}\n"
    return {
        f"{group}memory.max": f"{limit}\n",
        f"{group}memory.current": f"{usage}\n",
        f"{group}memory.stat": stat,
    }


def version_1(group: str, limit: int, usage: int, cache: tuple[int, int] = (0, 0)) -> dict[str, str]:
    stat = f"inactive_file 1\nactive_file 1\ntotal_inactive_file {cache[0]}\ntotal_active_file {cache[1]}\n"
    return {
        f"memory/{group}memory.limit_in_bytes": f"{limit}\n",
        f"memory/{group}memory.usage_in_bytes": f"{usage}\n",
        f"memory/{group}memory.stat": stat,
    }


NO_LIMIT_1 = 9223372036854771712
HYBRID = "9:name=systemd:/\n4:memory:/docker/abc\n0::/\n"


@pytest.mark.parametrize(
    ("own", "files", "available"),
    [
        ("0::/\n", version_2("", 5000, 2000), 3000),
        ("0::/\n", version_2("", 5000, 2000, (300, 40)), 3340),
        ("0::/\n", version_2("", "max", 2000), MACHINE),
        ("0::/\n", version_2("", 50_000, 2000), MACHINE),
        ("0::/\n", version_2("", 2000, 2005), 0),
        ("0::/a/b\n", version_2("a/b/", "max", 100) | version_2("a/", 4000, 500), 3500),
        ("0::/a/b\n", version_2("a/b/", 4000, 500) | version_2("a/", 3000, 600), 2400),
        ("0::/a/b\n", version_2("a/b/", 4000, 500) | version_2("a/", 8000, 600), 3500),
        ("0::/a\n", version_2("other/", 100, 50), MACHINE),
        ("0::/a\n", {}, MACHINE),
        (HYBRID, version_1("docker/abc/", 5000, 2000), 3000),
        (HYBRID, version_1("", 5000, 2000, (300, 40)), 3340),
        (HYBRID, version_1("docker/abc/", NO_LIMIT_1, 2000), MACHINE),
        (HYBRID, version_1("docker/abc/", 5000, 2000) | version_2("unified/", 1, 1), 3000),
        ("4:hugetlb,memory:/a\n", version_1("a/", 5000, 2000), 3000),
        ("5:cpu,cpuacct:/o\n4:memory:/a\n", version_1("o/", 100, 50) | version_1("a/", 5000, 2000), 3000),
        ("", version_2("", 5000, 2000), MACHINE),
    ],
)
def test_available_memory_is_the_least_of_the_machines_and_the_cgroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], available: int
) -> None:
    cgroups(monkeypatch, tmp_path, own, files)
    assert hardware.available_bytes() == available


def test_a_cgroup_without_statistics_has_no_page_cache_to_give_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups(monkeypatch, tmp_path, "0::/\n", {"memory.max": "5000\n", "memory.current": "2000\n"})
    assert hardware.available_bytes() == 3000


def test_a_system_without_cgroups_has_the_machines_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cgroups(monkeypatch, tmp_path, "0::/\n", version_2("", 5000, 2000))
    (tmp_path / "own").unlink()
    assert hardware.available_bytes() == MACHINE


def caches(folder: Path, *found: tuple[int, int, int, str, str]) -> Path:
    """A /sys/devices/system/cpu with these caches: core, index, level, size, cores that share it."""
    for core, index, level, size, shared in found:
        cache = folder / f"cpu{core}" / "cache" / f"index{index}"
        cache.mkdir(parents=True)
        (cache / "level").write_text(f"{level}\n")
        (cache / "size").write_text(f"{size}\n")
        (cache / "shared_cpu_list").write_text(f"{shared}\n")
    return folder


def test_each_last_level_cache_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [
        (core, index, level, size, "0-1")
        for core in (0, 1)
        for index, level, size in ((2, 2, "512K"), (3, 3, "32768K"))
    ]
    second = [(2, 2, 2, "512K", "2"), (2, 3, 3, "16384K", "2")]
    monkeypatch.setattr(hardware, "CPUS", caches(tmp_path, *first, *second))
    assert hardware.last_level_cache_bytes() == known((32768 + 16384) * 1024)


def test_caches_that_are_not_told_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "CPUS", tmp_path)
    assert hardware.last_level_cache_bytes() == missing("the system does not tell its caches")
    caches(tmp_path, (0, 0, 1, "unknown", "0"))
    found = hardware.last_level_cache_bytes()
    assert found.value is None
    assert "does not tell its caches: " in str(found.reason)
