"""Every variant on every workload, each at its own concurrency. Figures of two workloads are never averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from pipeline.metrics import derive, pairing
from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.metrics.evidence import Compare, VariantEvidence
from pipeline.metrics.latency import WorkloadSpeed
from pipeline.metrics.pairing import Speedup
from pipeline.params import Params, Workload
from pipeline.readings import Side
from pipeline.records import Reading
from pipeline.report import cells
from pipeline.report.breakdown import failures
from pipeline.report.breakdown.words import counted
from pipeline.report.cells import Cell


@dataclass(frozen=True)
class Column:
    metric: Metric
    """Its title, its formula, and how a value is shown."""
    cell: Callable[[VariantEvidence, str], Cell]
    """Of a variant on a workload."""


def of_speed(metric: Metric, read: Callable[[WorkloadSpeed, VariantEvidence], Reading]) -> Column:
    def cell(evidence: VariantEvidence, workload: str) -> Cell:
        found = evidence.workloads.get(workload)
        if found is not None and found.requests:
            return cells.reading(metric, read(found, evidence))
        failed = evidence.unusable or failures.unanswered(evidence, workload, evidence.concurrency.get(workload, 1))
        return cells.absent(failed or f"the benchmark has no workload {workload!r}")

    return Column(metric, cell)


def _statistic(name: str) -> Column:
    """A statistic that is a metric of the headline workload, on any workload."""
    field: Callable[[WorkloadSpeed], Reading] = attrgetter(name)
    return of_speed(BY_NAME[name], lambda found, _: field(found))


def _ratio(name: str, compare: Compare) -> Column:
    metric = BY_NAME[name]
    return Column(metric, lambda evidence, workload: cells.of_ratio(metric, _compared(evidence, workload, compare)))


def _compared(evidence: VariantEvidence, workload: str, compare: Compare) -> Speedup | str:
    """The ratio, or why there is none: the first failure of either side, where no turn has both."""
    found, readings = evidence.ratio(workload, compare), evidence.readings(workload)
    if evidence.unusable or readings is None or any(pair.baseline for pair in readings.pairs):
        return found
    return failures.unanswered(evidence, workload, readings.concurrency, tuple(Side)) or found


SPEEDUP = _ratio("speedup", pairing.decode_speedup)
DECODE = _statistic("decode_tokens_per_s")
TTFT = _statistic("ttft_s_p50")
WORK = of_speed(BY_NAME["decode_cost_s_per_token"], derive.decode_cost)
COST = of_speed(BY_NAME["cost_per_million_tokens"], derive.cost_per_million_tokens)
RATES: tuple[Column, ...] = (
    DECODE,
    SPEEDUP,
    WORK,
    _ratio("decode_cost_ratio", pairing.decode_cost_ratio),
    _statistic("prefill_tokens_per_s"),
    _statistic("end_to_end_tokens_per_s"),
    _statistic("aggregate_tokens_per_s"),
    COST,
)
LATENCIES: tuple[Column, ...] = (
    TTFT,
    _statistic("ttft_s_p95"),
    _statistic("tpot_s_p50"),
    _statistic("tpot_s_p95"),
    _statistic("itl_s_p50"),
    _statistic("itl_s_p95"),
    _statistic("itl_s_p99"),
)


@dataclass(frozen=True)
class Line:
    variant: str
    pairs: Cell
    """What the ratios are over."""
    rates: tuple[Cell, ...]
    """In the order of `RATES`."""
    latencies: tuple[Cell, ...]
    """In the order of `LATENCIES`."""


@dataclass(frozen=True)
class Block:
    workload: str
    words: str
    """What is asked for."""
    lines: tuple[Line, ...]


def by_workload(variants: Sequence[VariantEvidence], params: Params) -> list[Block]:
    return [
        Block(name, _words(settings), tuple(_line(evidence, name) for evidence in variants))
        for name, settings in params.benchmark.workloads.items()
    ]


def _words(settings: Workload) -> str:
    prompt = counted(settings.prompt_tokens, "prompt token", "prompt tokens")
    streams = counted(settings.concurrency, "stream", "streams")
    return f"{prompt}, {counted(settings.output_tokens, 'output token', 'output tokens')}, {streams}"


def _line(evidence: VariantEvidence, workload: str) -> Line:
    found = _compared(evidence, workload, pairing.decode_speedup)
    return Line(
        variant=evidence.variant,
        pairs=cells.absent(found) if isinstance(found, str) else Cell(f"{found.pairs} in {found.processes}"),
        rates=tuple(column.cell(evidence, workload) for column in RATES),
        latencies=tuple(column.cell(evidence, workload) for column in LATENCIES),
    )
