"""What else is at work on the device, and whether its clocks are held down. Raw readings only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pipeline.probes import nvml
from pipeline.probes.hardware import CPUS
from pipeline.records import Reading, known, missing


def foreign_gpu_processes(device: str, ours: Collection[int]) -> Reading:
    """How many processes that compute on the GPU in use are none of `ours`.

    Those that only draw do not count: on a machine with a desktop there always are some.
    In a container the driver lists processes by the host's numbers, so that ours cannot be told apart: then only what
    goes beyond our number is known to be foreign.
    """

    def count(handle: Any) -> Reading:
        import pynvml

        listed = {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        if not listed.isdisjoint(ours):
            return known(len(listed.difference(ours)))
        if len(listed) > len(ours):
            return known(len(listed) - len(ours))
        return missing("NVML lists none of our processes (in a container their pids differ from the host's)")

    return nvml.read(device, count)


def throttled(device: str) -> Reading:
    """1 while heat or the power supply holds the GPU's clocks down, else 0.

    The board's own power limit (`SwPowerCap`) is no throttling: a GPU under full load normally runs at it.
    """

    def held_down(handle: Any) -> Reading:
        import pynvml

        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
        slowdowns = (
            pynvml.nvmlClocksEventReasonHwSlowdown
            | pynvml.nvmlClocksEventReasonSwThermalSlowdown
            | pynvml.nvmlClocksEventReasonHwThermalSlowdown
            | pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
        )
        return known(float(bool(reasons & slowdowns)))

    return nvml.read(device, held_down)


def cpu_throttle_count() -> Reading:
    """How often heat has slowed the cores since the system started, added over the cores; only its rise means much."""
    try:
        counts = [int(path.read_text()) for path in CPUS.glob("cpu[0-9]*/thermal_throttle/core_throttle_count")]
    except (OSError, ValueError) as error:
        return missing(f"the system does not tell whether its cores are throttled: {error}")
    return known(sum(counts)) if counts else missing("the system does not tell whether its cores are throttled")
