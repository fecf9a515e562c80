"""The parts of the report below the table: speed by workload, quality by category, items that were lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.metrics.evidence import VariantEvidence
from pipeline.records import FinishReason, Interval, ItemResult, Status
from pipeline.report import cells
from pipeline.report.cells import Cell

SPEED: tuple[tuple[str, Metric], ...] = (
    ("ttft_s_p50", BY_NAME["ttft_s_p50"]),
    ("ttft_s_p95", BY_NAME["ttft_s_p95"]),
    ("tpot_s_p50", BY_NAME["tpot_s_p50"]),
    ("tpot_s_p95", BY_NAME["tpot_s_p95"]),
    ("decode_tokens_per_s", BY_NAME["decode_tokens_per_s"]),
    ("prefill_tokens_per_s", BY_NAME["prefill_tokens_per_s"]),
    ("end_to_end_tokens_per_s", BY_NAME["end_to_end_tokens_per_s"]),
)
"""Statistic of a workload, and the metric that says how it is shown."""

SHOWN_LOST_ITEMS = 20


@dataclass(frozen=True)
class SpeedLine:
    workload: str
    variant: str
    cells: tuple[Cell, ...]
    """In the order of `SPEED`."""


def speed(variants: Sequence[VariantEvidence], workloads: Sequence[str]) -> list[SpeedLine]:
    """Every variant on every workload; never averaged over workloads."""
    return [SpeedLine(name, e.variant, _speed_cells(e, name)) for name in workloads for e in variants]


def _speed_cells(evidence: VariantEvidence, workload: str) -> tuple[Cell, ...]:
    found = evidence.workloads.get(workload)
    if found is None:
        reason = evidence.speed.reason or f"the benchmark has no workload {workload!r}"
        return tuple(Cell(cells.DASH, reason=reason) for _ in SPEED)
    return tuple(cells.reading(metric, getattr(found, name)) for name, metric in SPEED)


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
