"""The machine as the operating system and the driver describe it, without importing torch."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from pipeline.probes import nvml
from pipeline.records import Gpu, Reading, known, missing

CPUS = Path("/sys/devices/system/cpu")
NO_GPU = "NVML sees no GPU"


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
    """Memory that processes can take now without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)


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
