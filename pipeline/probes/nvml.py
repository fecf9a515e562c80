"""NVIDIA's management library: opening it, and finding a GPU in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from pipeline.records import Reading, missing

CPU_ONLY = "the model runs on the CPU"


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """NVML is ready inside.

    Raises:
        pynvml.NVMLError: there is no driver or no GPU.
    """
    import pynvml

    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def read(device: str, reading: Callable[[Any], Reading]) -> Reading:
    """What `reading` finds about the GPU that torch uses in this process, given its handle."""
    if device != "cuda":
        return missing(CPU_ONLY)
    import pynvml
    import torch

    # CUDA_VISIBLE_DEVICES renumbers devices for torch but not for NVML; the UUID is the same for both.
    uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    try:
        with opened():
            return reading(pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"))
    except pynvml.NVMLError as error:
        return missing(f"NVML: {error}")


def first_visible() -> Any | None:
    """The first GPU that CUDA_VISIBLE_DEVICES leaves in sight; None when it hides all. NVML must be open.

    Numbers count as NVML does, in PCI order, which is CUDA's order where all GPUs are alike or CUDA_DEVICE_ORDER is
    PCI_BUS_ID. A UUID may be cut short, as CUDA allows.
    """
    import pynvml

    wanted = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if wanted.startswith("MIG-"):
        return pynvml.nvmlDeviceGetHandleByUUID(wanted)
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        if wanted == str(index) or _begins(wanted, str(pynvml.nvmlDeviceGetUUID(handle))):
            return handle
    return None


def _begins(wanted: str, uuid: str) -> bool:
    return wanted.startswith("GPU-") and uuid.startswith(wanted)
