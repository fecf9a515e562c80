"""Quality by category."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.metrics.evidence import VariantEvidence
from pipeline.records import Interval, Status
from pipeline.report import cells
from pipeline.report.cells import Cell


@dataclass(frozen=True)
class CategoryScore:
    eval_set: str
    category: str
    variant: str
    interval: Interval | None
    cell: Cell


def categories(variants: Sequence[VariantEvidence]) -> list[CategoryScore]:
    """Every variant on every category of every eval set, in the order in which the categories were scored."""
    named = dict.fromkeys((s.name, category) for e in variants for s in e.quality for category in s.record.categories)
    return [_category(e, eval_set, category) for eval_set, category in named for e in variants]


def _category(evidence: VariantEvidence, eval_set: str, category: str) -> CategoryScore:
    record = next(s.record for s in evidence.quality if s.name == eval_set)
    interval = record.categories.get(category) if record.status is Status.OK else None
    reason = record.reason or f"no item of {category} was scored"
    return CategoryScore(eval_set, category, evidence.variant, interval, cells.of_interval(interval, reason))
