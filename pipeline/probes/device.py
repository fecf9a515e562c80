"""The device of a worker: which one, waiting for it, and the memory it holds. Raw readings only."""

from __future__ import annotations

import os

from pipeline.errors import UserError
from pipeline.records import Reading, known, missing

CPU_ONLY = "the model runs on the CPU"


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


def reset_peak(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()


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
    if device != "cuda":
        return missing(CPU_ONLY)
    import pynvml
    import torch

    try:
        pynvml.nvmlInit()
        try:
            # CUDA_VISIBLE_DEVICES renumbers devices for torch but not for NVML; the UUID is the same for both.
            uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
            for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
                if process.pid == os.getpid():
                    used = process.usedGpuMemory
                    return missing("the driver does not tell memory per process") if used is None else known(used)
            return missing("NVML does not list this process (in a container its pid differs from the host's)")
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return missing(f"NVML: {error}")
