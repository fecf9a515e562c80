"""How close decoding on the headline workload comes to what this device can do, and what bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.evidence import VariantEvidence
from pipeline.records import Reading
from pipeline.report import cells
from pipeline.report.cells import Cell

GIGA = 1e9


@dataclass(frozen=True)
class Line:
    variant: str
    mbu: Cell
    mfu: Cell
    words: str


def lines(variants: Sequence[VariantEvidence]) -> list[Line]:
    return [_line(evidence) for evidence in variants]


def _line(evidence: VariantEvidence) -> Line:
    found = evidence.roofline(evidence.headline)
    if isinstance(found, str):
        return Line(evidence.variant, cells.absent(found), cells.absent(found), found)
    return Line(evidence.variant, _share(found.mbu), _share(found.mfu), found.words)


def _share(found: Reading) -> Cell:
    return cells.reading(BY_NAME["mbu"], found)


def device(variants: Sequence[VariantEvidence]) -> str:
    """The best that any probe of this device reached, in words; empty where none ran."""
    limits = variants[0].limits
    kernels = {kernel for probe in limits for kernel in probe.bytes_per_s}
    best = {kernel: max(probe.bytes_per_s.get(kernel, 0.0) for probe in limits) for kernel in sorted(kernels)}
    compute = [probe.flops_per_s.value for probe in limits if probe.flops_per_s.value is not None]
    parts = []
    if best:
        each = ", ".join(f"{kernel} {rate / GIGA:.1f}" for kernel, rate in best.items())
        parts.append(f"moves at best {max(best.values()) / GIGA:.1f} GB/s ({each})")
    if compute:
        parts.append(f"computes at best {max(compute) / GIGA:,.0f} billion operations per second in a matrix product")
    return f"By probes in the workers this device {' and '.join(parts)}." if parts else ""
