"""The device of a worker: which one, waiting for it, its clock, and the memory it holds. Raw readings only."""

from __future__ import annotations

import os
from typing import Any

from pipeline.errors import UserError
from pipeline.probes import hardware, nvml, process
from pipeline.probes.nvml import CPU_ONLY
from pipeline.records import Reading, known, missing

OUT_OF_MEMORY = (
    # c10/core/impl/alloc_cpu.cpp on Linux and macOS, and on Windows
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    # Memory that libraries take beside torch's allocator
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
"""How torch 2.13 says that memory is short where it raises a plain RuntimeError."""


def resolve(device: str) -> str:
    """`auto` → `cuda` where torch sees a GPU, else `cpu`.

    Raises:
        UserError: `cuda` was asked for and torch sees none.
    """
    import torch

    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise UserError(
            f"runtime.device is cuda, but torch {torch.__version__} sees no GPU; set it to auto or cpu, or install "
            "the CUDA build of torch and a driver"
        )
    return "cuda" if device != "cpu" and available else "cpu"


def set_threads(device: str, threads: int) -> None:
    """CPU threads of torch in this process; left alone on CUDA."""
    if device == "cpu":
        import torch

        torch.set_num_threads(threads)


def seed(value: int) -> None:
    import torch

    torch.manual_seed(value)


def synchronise(device: str) -> None:
    """Wait until all work queued on the device is done; CUDA calls return before the work is."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def mark(device: str) -> Any | None:
    """A mark in the device's queue of work, which the device stamps with its own clock; None on the CPU."""
    if device != "cuda":
        return None
    import torch

    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between_s(start: Any, end: Any) -> float:
    """Seconds by the device's clock between two marks; waits until the device has passed the second."""
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def release_memory() -> None:
    """Give memory that the allocator keeps, but no tensor uses, back to the GPU; does nothing where there is none."""
    import torch

    torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY)


def reset_peak(device: str) -> bool:
    """Start `peak_bytes` anew from what is held now; False when the system does not let it be done."""
    if device != "cuda":
        return process.reset_peak()
    import torch

    torch.cuda.reset_peak_memory_stats()
    return True


def peak_bytes(device: str) -> Reading:
    """Largest memory since `reset_peak`: what the allocator took from a GPU, or the resident set on the CPU."""
    return allocator_reserved_peak_bytes(device) if device == "cuda" else process.peak_bytes()


def free_bytes(device: str) -> Reading:
    """Memory that is left for models now: of the GPU, or of the machine for the CPU."""
    if device != "cuda":
        return known(hardware.available_bytes())
    import torch

    free, _ = torch.cuda.mem_get_info()
    return known(free)


def allocator_peak_bytes(device: str) -> Reading:
    """Largest amount that torch's allocator gave to tensors since `reset_peak`."""
    if device != "cuda":
        return missing(CPU_ONLY)
    import torch

    return known(torch.cuda.max_memory_allocated())


def allocator_reserved_peak_bytes(device: str) -> Reading:
    """Largest amount that torch's allocator took from the device since `reset_peak`."""
    if device != "cuda":
        return missing(CPU_ONLY)
    import torch

    return known(torch.cuda.max_memory_reserved())


def nvml_process_bytes(device: str) -> Reading:
    """Device memory of this process as the driver counts it: allocator, context and kernels together."""
    return nvml.read(device, _own_bytes)


def _own_bytes(handle: Any) -> Reading:
    import pynvml

    for listed in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
        if listed.pid == os.getpid():
            used = listed.usedGpuMemory
            return missing("the driver does not tell memory per process") if used is None else known(used)
    return missing("NVML does not list this process (in a container its pid differs from the host's)")
