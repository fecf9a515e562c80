"""The machine as the operating system and the driver describe it, without importing torch."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from pipeline.records import Gpu


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


def gpus() -> tuple[list[Gpu], str | None]:
    """NVIDIA GPUs by NVML, or none and the reason."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [], f"NVML: {error}"
    try:
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
    finally:
        pynvml.nvmlShutdown()
    return found, None if found else "NVML sees no GPU"
