"""Small parts of sentences."""

from __future__ import annotations


def counted(count: int, one: str, several: str) -> str:
    """E.g. `1 stream`, `4 streams`."""
    return f"{count:,} {one if count == 1 else several}"


def level(workload: str, concurrency: int) -> str:
    """A workload at a concurrency; one stream goes without saying."""
    return workload if concurrency == 1 else f"{workload} × {concurrency}"
