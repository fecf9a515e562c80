"""What tokens and answers cost on each workload, at its own concurrency, on a machine that is always busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.metrics import derive
from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.evidence import VariantEvidence
from pipeline.params import Params
from pipeline.report.breakdown import speed
from pipeline.report.cells import Cell

PER_ANSWER = speed.of_speed(BY_NAME["cost_per_passing_answer"], derive.cost_per_passing_answer)


@dataclass(frozen=True)
class Line:
    workload: str
    per_million_tokens: tuple[Cell, ...]
    """In the order of the variants."""
    per_passing_answer: tuple[Cell, ...]


def lines(variants: Sequence[VariantEvidence], params: Params) -> list[Line]:
    """None where params.yaml has no price."""
    if params.serving.price_per_hour is None:
        return []
    return [
        Line(
            name,
            tuple(speed.COST.cell(evidence, name) for evidence in variants),
            tuple(PER_ANSWER.cell(evidence, name) for evidence in variants),
        )
        for name in params.benchmark.workloads
    ]
