"""One workload at several concurrencies: what each level delivers, and where a variant stops being faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.metrics import sweep
from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.sweep import Sweep
from pipeline.records import missing
from pipeline.report import cells
from pipeline.report.breakdown import failures
from pipeline.report.breakdown.words import counted
from pipeline.report.cells import Cell

COLUMNS: tuple[tuple[str, Metric], ...] = (
    ("aggregate_tokens_per_s", BY_NAME["aggregate_tokens_per_s"]),
    ("decode_tokens_per_s", BY_NAME["decode_tokens_per_s"]),
    ("ttft_s_p50", BY_NAME["ttft_s_p50"]),
    ("ttft_s_p95", BY_NAME["ttft_s_p95"]),
    ("goodput_requests_per_s", BY_NAME["goodput_requests_per_s"]),
)
"""Figure of a level, and the metric that says how it is shown."""
STATIC_BATCH = (
    "A static batch: the streams start and step together, with no queue and no arrivals. It tells what this engine can "
    "deliver at best; it does not predict a server with continuous batching."
)


@dataclass(frozen=True)
class Line:
    streams: int
    cells: tuple[Cell, ...]
    """In the order of `COLUMNS`."""
    speedup: Cell
    """Aggregate tokens/s against the baseline's at the same level."""
    is_knee: bool
    aggregate_tokens_per_s: float | None
    """For the chart; None where it is missing."""


@dataclass(frozen=True)
class Swept:
    variant: str
    lines: tuple[Line, ...]
    """By rising concurrency; none where nothing was swept."""
    words: str
    """How it compares with the baseline, and where the knee is; why not, where nothing was swept."""


def of(variants: Sequence[VariantEvidence]) -> list[Swept]:
    return [_swept(evidence) for evidence in variants]


def _swept(evidence: VariantEvidence) -> Swept:
    found = evidence.sweep
    if isinstance(found, str):
        return Swept(evidence.variant, (), found)
    lines = tuple(_line(evidence, found, level) for level in found.levels)
    return Swept(evidence.variant, lines, "; ".join(_words(evidence, found)))


def _line(evidence: VariantEvidence, found: Sweep, level: sweep.Level) -> Line:
    failed = None if level.requests else failures.unanswered(evidence, found.workload, level.concurrency)
    figures = [missing(failed) if failed else getattr(level, name) for name, _ in COLUMNS]
    return Line(
        streams=level.concurrency,
        cells=tuple(cells.reading(metric, figure) for (_, metric), figure in zip(COLUMNS, figures, strict=True)),
        speedup=cells.of_ratio(BY_NAME["speedup"], failed or level.aggregate_speedup),
        is_knee=level is found.knee,
        aggregate_tokens_per_s=level.aggregate_tokens_per_s.value,
    )


def _words(evidence: VariantEvidence, found: Sweep) -> Iterator[str]:
    if evidence.baseline is not None:
        yield f"against {evidence.baseline.variant} {found.words}"
        yield from _crossover(found)
    yield _knee(found)


def _crossover(found: Sweep) -> Iterator[str]:
    if found.crossover is not None:
        at = _streams(found.crossover)
        yield f"crossover at {at}: from there on it is no longer shown to be {found.runs[0].versus}"


def _knee(found: Sweep) -> str:
    if found.knee is None:
        return "no knee: fewer than two levels can be compared"
    at = f"knee at {_streams(found.knee.concurrency)}"
    return f"{at}, the highest level: the true one may lie beyond" if found.knee is found.levels[-1] else at


def _streams(count: int) -> str:
    return counted(count, "stream", "streams")
