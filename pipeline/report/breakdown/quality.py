"""Quality by category, and the items that were lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.metrics.evidence import VariantEvidence
from pipeline.quality_records import FinishReason, ItemResult
from pipeline.records import Interval, Status
from pipeline.report import cells
from pipeline.report.cells import Cell

SHOWN_LOST_ITEMS = 20


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


@dataclass(frozen=True)
class LostItem:
    item_id: str
    category: str
    critical: bool
    prompt: str
    target: str
    baseline_output: str
    output: str
    cut_off: bool
    """The variant's answer ended at its token limit, not by itself."""


@dataclass(frozen=True)
class Lost:
    variant: str
    total: int
    shown: tuple[LostItem, ...]
    """The first `SHOWN_LOST_ITEMS`, critical ones first."""
    reason: str = ""
    """Why nothing could be compared."""


def lost_items(variants: Sequence[VariantEvidence]) -> Iterator[Lost]:
    """The items that the baseline passed and the variant did not, for each variant but the baseline."""
    for evidence in variants:
        if evidence.is_baseline:
            continue
        found = evidence.flips
        if isinstance(found, str):
            yield Lost(evidence.variant, 0, (), found)
            continue
        ordered = sorted(found.lost, key=lambda pair: not pair[0].critical)
        shown = tuple(_lost(ours, theirs) for ours, theirs in ordered[:SHOWN_LOST_ITEMS])
        yield Lost(evidence.variant, len(ordered), shown)


def _lost(ours: ItemResult, theirs: ItemResult) -> LostItem:
    return LostItem(
        item_id=ours.item_id,
        category=ours.category,
        critical=ours.critical,
        prompt=ours.prompt,
        target=ours.target if isinstance(ours.target, str) else json.dumps(ours.target, ensure_ascii=False),
        baseline_output=theirs.output,
        output=ours.output,
        cut_off=ours.finish_reason is FinishReason.LENGTH,
    )
