"""The machine as the operating system and the driver describe it, without importing torch."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.probes import nvml
from pipeline.records import Gpu, Reading, known, missing

CPUS = Path("/sys/devices/system/cpu")
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
NO_GPU = "NVML sees no GPU"


@dataclass(frozen=True)
class _MemoryController:
    """How a version of Linux cgroups tells the memory of a group, its children's included."""

    name: str
    """In /proc/self/cgroup; also the folder where the groups are mounted."""
    limit: str
    usage: str
    reclaimable: tuple[str, str]
    """Keys of memory.stat: the page cache, which counts as usage but is given up before memory runs short."""


CONTROLLERS = (
    _MemoryController("", "memory.max", "memory.current", ("active_file", "inactive_file")),
    _MemoryController(
        "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
    ),
)
"""Versions 2 and 1: kernel documentation, admin-guide/cgroup-v2.rst and admin-guide/cgroup-v1/memory.rst."""


def cpu_name() -> str:
    """The model name of the first processor, as Linux gives it; the architecture elsewhere."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cpu_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    import psutil

    return int(psutil.virtual_memory().total)


def available_bytes() -> int:
    """Memory that processes can take now without swapping, by the machine and by the limits of our cgroups.

    Inside a container the machine's is the host's.
    """
    import psutil

    return min([int(psutil.virtual_memory().available), *_left_in_cgroups()])


def _left_in_cgroups() -> list[int]:
    """Bytes left in each cgroup with a limit that this process is in, at any height; empty outside of Linux."""
    found = []
    for controller, folder in _own_cgroups():
        # A file may be absent, as at the root of version 2, or say "max".
        with contextlib.suppress(OSError, ValueError):
            found.append(_left(controller, folder))
    return found


def _own_cgroups() -> Iterator[tuple[_MemoryController, Path]]:
    """The cgroup of this process and those above it; of a host's path, as seen in a container, only the root exists."""
    try:
        lines = OWN_CGROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, names, path = line.split(":", 2)
        for controller in CONTROLLERS:
            if controller.name in names.split(","):
                root = CGROUPS / controller.name
                own = root / path.lstrip("/")
                yield from ((controller, folder) for folder in (own, *own.parents) if folder.is_relative_to(root))


def _left(controller: _MemoryController, folder: Path) -> int:
    limit, usage = (int((folder / name).read_text()) for name in (controller.limit, controller.usage))
    return max(0, limit - usage + _reclaimable(controller, folder))


def _reclaimable(controller: _MemoryController, folder: Path) -> int:
    with contextlib.suppress(OSError):
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return sum(int(stat.get(key, 0)) for key in controller.reclaimable)
    return 0


def last_level_cache_bytes() -> Reading:
    """The last-level caches of all cores together, each counted once however many cores share it."""
    caches = [path.parent for path in CPUS.glob("cpu[0-9]*/cache/index[0-9]*/size")]
    try:
        levels = [int((cache / "level").read_text()) for cache in caches]
        last = [cache for cache, level in zip(caches, levels, strict=True) if level == max(levels)]
        # The kernel writes sizes as "32768K".
        sizes = {(cache / "shared_cpu_list").read_text(): (cache / "size").read_text() for cache in last}
        total = sum(int(size.strip().removesuffix("K")) * 1024 for size in sizes.values())
    except (OSError, ValueError) as error:
        return missing(f"the system does not tell its caches: {error}")
    return known(total) if total else missing("the system does not tell its caches")


def gpu_free_bytes() -> Reading:
    """Free memory of the first visible GPU, by NVML."""
    import pynvml

    try:
        with nvml.opened():
            handle = nvml.first_visible()
            if handle is None:
                return missing(f"{NO_GPU} that CUDA_VISIBLE_DEVICES leaves in sight")
            return known(int(pynvml.nvmlDeviceGetMemoryInfo(handle).free))
    except pynvml.NVMLError as error:
        return missing(f"NVML: {error}")


def compute_capability() -> Reading:
    """CUDA compute capability of the first visible GPU, e.g. 8.9, by NVML."""
    import pynvml

    try:
        with nvml.opened():
            handle = nvml.first_visible()
            if handle is None:
                return missing(f"{NO_GPU} that CUDA_VISIBLE_DEVICES leaves in sight")
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
            return known(major + minor / 10)
    except pynvml.NVMLError as error:
        return missing(f"NVML: {error}")


def driver_cuda_version() -> Reading:
    """The newest CUDA version that the driver runs, e.g. 12.8, by NVML."""
    import pynvml

    try:
        with nvml.opened():
            # 12080 is 12.8: nvml.h, NVML_CUDA_DRIVER_VERSION_MAJOR and _MINOR.
            number = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
            return known(number // 1000 + number % 1000 // 10 / 10)
    except pynvml.NVMLError as error:
        return missing(f"NVML: {error}")


def gpus() -> tuple[list[Gpu], str | None]:
    """NVIDIA GPUs by NVML, or none and the reason."""
    import pynvml

    try:
        with nvml.opened():
            driver = str(pynvml.nvmlSystemGetDriverVersion())
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            found = [
                Gpu(
                    name=str(pynvml.nvmlDeviceGetName(handle)),
                    memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                    driver=driver,
                )
                for handle in handles
            ]
    except pynvml.NVMLError as error:
        return [], f"NVML: {error}"
    return found, None if found else NO_GPU
