"""Memory of this process as the operating system counts it. Raw readings only."""

from __future__ import annotations

from pathlib import Path

from pipeline.records import Reading, known, missing

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
NOT_LINUX = "only Linux tells the peak resident set (VmHWM)"
NO_SWAP = "this system does not tell how much of a process is in swap (VmSwap)"


def reset_peak() -> bool:
    """Start the peak resident set anew from the present one (Linux, `5` to clear_refs; see man 5 proc)."""
    try:
        CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def peak_bytes() -> Reading:
    """Peak resident set since the process began, or since `reset_peak`."""
    return _status("VmHWM", NOT_LINUX)


def swapped_bytes() -> Reading:
    """Memory of this process that the system has moved to swap by now, shared memory not counted."""
    return _status("VmSwap", NO_SWAP)


def _status(field: str, otherwise: str) -> Reading:
    """A field of /proc/self/status, which is in KiB, in bytes."""
    try:
        lines = STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return missing(otherwise)
    for line in lines:
        if line.startswith(f"{field}:"):
            return known(int(line.split()[1]) * 1024)
    return missing(otherwise)
