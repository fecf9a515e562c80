"""Where a worker's threads run, how they wait, and what becomes of the memory they free."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pipeline.errors import UserError

Cores = Sequence[int] | None
"""None: all that there are."""

WAITING: Mapping[str, Mapping[str, str]] = {
    "passive": {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"},
    "active": {"OMP_WAIT_POLICY": "ACTIVE", "KMP_BLOCKTIME": "infinite"},
    "default": {},
}
"""What threads do at a barrier, for GNU's and Intel's OpenMP: sleep, spin, or spin for a while and then sleep."""

ALLOCATOR: Mapping[str, Mapping[str, str]] = {
    # Never a mapping of its own for a large block, growth in steps of 256 MiB, nothing given back below 8 GiB free at
    # the top, huge pages where the kernel lends them, and one arena: the others of threads are heaps of 64 MiB that go
    # back to the system whenever they are empty, whatever the threshold. See mallopt(3) and the tunables in the manual
    # of the GNU C library. Each block that comes anew from the system costs a fault per page.
    "retain": {
        "MALLOC_TRIM_THRESHOLD_": "8589934592",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TOP_PAD_": "268435456",
        "MALLOC_ARENA_MAX": "1",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    },
    "default": {},
}
"""What the GNU C library does with freed memory."""


def environment(waiting: str, allocator: str) -> dict[str, str]:
    """Environment variables for a worker. Its libraries read them once, so they must stand before it starts."""
    return {**WAITING[waiting], **ALLOCATOR[allocator]}


def problem(cores: Cores) -> str | None:
    """Why a process cannot run on these cores only, or None."""
    if cores is None:
        return None
    if not hasattr(os, "sched_setaffinity"):
        return "runtime.cores: this system has no call to choose a process's cores; set it to null"
    allowed = os.sched_getaffinity(0)
    if cores and allowed.issuperset(cores):
        return None
    return f"runtime.cores: {list(cores)} must be some of the cores that this process may use: {sorted(allowed)}"


def require(cores: Cores) -> None:
    """Raises UserError: the system cannot choose cores, or one is not among those this process may use."""
    wrong = problem(cores)
    if wrong:
        raise UserError(wrong)


def pin(cores: Cores, pid: int = 0) -> None:
    """Let a process's main thread, and all that it starts from now on, run on these cores only; 0 is this process.

    Call it before torch is imported.

    Raises:
        UserError: see `require`.
    """
    require(cores)
    if cores is not None:
        os.sched_setaffinity(pid, cores)


def words(threads: int, cores: Cores, waiting: str, allocator: str) -> dict[str, str]:
    """How a worker was set up, for its record."""
    named = "all" if cores is None else ", ".join(map(str, cores))
    return {"threads": str(threads), "cores": named, "waiting": waiting, "allocator": allocator}
