"""What the device can do at best: bytes moved per second by plain streaming, and operations per second of a product.

Streaming follows STREAM (J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers",
1995): arrays that no cache holds, the bytes that the kernel names counted and nothing that the hardware moves besides,
the best of several runs of which the first does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from pipeline.probes import device as device_probe
from pipeline.probes import hardware
from pipeline.readings import DeviceLimits
from pipeline.records import Reading, known, missing

ARRAY_BYTES = {"cpu": 256 * 2**20, "cuda": 2**30}
PRODUCT_SIZE = {"cpu": 1024, "cuda": 8192}
CACHE_MULTIPLE = 4
"""STREAM's rule: each array at least four times the last-level caches."""
MEMORY_SHARE = 8
"""No array is larger than one part in this many of the free memory; three are held at once."""


def measure(device: str, dtype: str, array_bytes: int | None = None, repeats: int = 7) -> DeviceLimits:
    """Best rates of this process's threads or GPU. Takes about a second, and frees its memory.

    Args:
        dtype: of the matrix product; streaming is in float32.
        array_bytes: of one array; by default large enough for STREAM's rule as far as the memory allows.
        repeats: runs of each kernel, at least 2.
    """
    if repeats < 2:
        raise ValueError(f"the first of the repeats does not count, so there must be at least 2, not {repeats}")
    size = _array_bytes(device) if array_bytes is None else array_bytes
    rates = dict(_streaming(device, size, repeats))
    flops = _flops_per_s(device, dtype, repeats)
    device_probe.release_memory()
    return DeviceLimits(bytes_per_s=rates, array_bytes=size // 4 * 4, flops_per_s=flops)


def _array_bytes(device: str) -> int:
    cache = hardware.last_level_cache_bytes().value or 0
    wanted = ARRAY_BYTES[device] if device == "cuda" else max(ARRAY_BYTES[device], CACHE_MULTIPLE * int(cache))
    free = device_probe.free_bytes(device).value
    return wanted if free is None else min(wanted, int(free) // MEMORY_SHARE)


def _streaming(device: str, array_bytes: int, repeats: int) -> Iterator[tuple[str, float]]:
    """Name and bytes per second of each kernel."""
    import torch

    a, b, c = (torch.ones(array_bytes // 4, dtype=torch.float32, device=device) for _ in range(3))
    kernels: dict[str, tuple[int, Callable[[], Any]]] = {
        "copy": (2, lambda: c.copy_(a)),
        "add": (3, lambda: torch.add(a, b, out=c)),
        "read": (1, lambda: torch.sum(a)),
    }
    for name, (arrays, kernel) in kernels.items():
        yield name, arrays * a.nbytes / _best_s(device, kernel, repeats)


def _flops_per_s(device: str, dtype: str, repeats: int) -> Reading:
    """2n³ operations of an n × n product over its best time; missing where the device has no product in `dtype`.

    The second matrix is transposed, as in a linear layer: torch has fast float16 code on a CPU for that order alone.
    """
    import torch

    n = PRODUCT_SIZE[device]
    try:
        a, b = (torch.ones(n, n, dtype=getattr(torch, dtype), device=device) for _ in range(2))
        c = torch.empty_like(a)
        return known(2 * n**3 / _best_s(device, lambda: torch.mm(a, b.t(), out=c), repeats))
    except RuntimeError as error:
        return missing(f"no {n} × {n} product in {dtype}: {str(error).splitlines()[0]}")


def _best_s(device: str, kernel: Callable[[], Any], repeats: int) -> float:
    with_first = [_seconds(device, kernel) for _ in range(repeats)]
    return min(with_first[1:])


def _seconds(device: str, kernel: Callable[[], Any]) -> float:
    device_probe.synchronise(device)
    start, start_s = device_probe.mark(device), time.perf_counter()
    kernel()
    end, end_s = device_probe.mark(device), time.perf_counter()
    return end_s - start_s if end is None else device_probe.between_s(start, end)
