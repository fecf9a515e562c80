"""Memory of this process as the operating system counts it. Raw readings only."""

from __future__ import annotations

from pathlib import Path

from pipeline.records import Reading, known, missing

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
NOT_LINUX = "only Linux tells the peak resident set (VmHWM)"


def reset_peak() -> bool:
    """Start the peak resident set anew from the present one (Linux, `5` to clear_refs; see man 5 proc)."""
    try:
        CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def peak_bytes() -> Reading:
    """Peak resident set since the process began, or since `reset_peak`."""
    try:
        lines = STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return missing(NOT_LINUX)
    for line in lines:
        if line.startswith("VmHWM:"):
            return known(int(line.split()[1]) * 1024)
    return missing(NOT_LINUX)
