"""Each gate on each variant: what is asked of which part, what was measured, and what would decide it."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.metrics.catalogue import BY_NAME
from pipeline.params import Gate
from pipeline.records import GateVerdict, Verdict
from pipeline.report import cells, gates
from pipeline.report.analysis import Analysis
from pipeline.report.cells import Cell
from pipeline.report.rows import Row


@dataclass(frozen=True)
class Line:
    variant: str
    verdict: Verdict
    measured: Cell
    reason: str
    """Why, and of an undecided one what would decide it."""


@dataclass(frozen=True)
class Judged:
    gate: str
    requirement: str
    """In words, with what it is asked of and the bound."""
    lines: tuple[Line, ...]
    """In the order of the variants."""


def lines(analysis: Analysis) -> list[Judged]:
    """Every gate of params.yaml, in its order."""
    decided = analysis.decided()
    return [
        Judged(
            gate=name,
            requirement=gates.describe(gate, analysis.baseline),
            lines=tuple(_line(row, gate, _verdict(name, each.gates)) for row, each in decided),
        )
        for name, gate in analysis.params.gates.items()
    ]


def _verdict(gate: str, verdicts: list[GateVerdict]) -> GateVerdict:
    return next(verdict for verdict in verdicts if verdict.gate == gate)


def _line(row: Row, gate: Gate, found: GateVerdict) -> Line:
    metric = BY_NAME[gate.metric]
    measured = row.measure(metric, gate.scope)
    return Line(
        variant=row.variant,
        verdict=found.verdict,
        measured=cells.reading(metric, measured.value, measured.low, measured.high),
        reason=found.reason,
    )
