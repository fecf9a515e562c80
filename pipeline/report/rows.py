"""One row per variant: its status and every metric of the catalogue. The table that everything else reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.metrics.catalogue import METRICS, Metric
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.samples import Sample
from pipeline.metrics.scope import WHOLE, Measured, Scope, measure
from pipeline.params import Params
from pipeline.records import EngineInfo, Reading, Status
from pipeline.report import frontier
from pipeline.report.gather import Gathered

NOT_NATIVE = "kernel not native here: speed not representative"
"""Said of a variant whose kernels do the work of another format on this device."""


@dataclass(frozen=True)
class Row:
    variant: str
    engine: str
    status: Status
    reason: str | None
    is_baseline: bool
    samples: Mapping[str, Sample]
    """What the interval of a metric is over, by the metric's name; those without an interval are not there."""
    artifact_sha256: str | None
    readings: Mapping[str, Reading]
    """By metric name; every metric of the catalogue is there."""
    kernel_note: str
    """That the kernels are not native on this device, so that its speed says little about another one; else empty."""
    on_frontier: bool
    dominated_by: tuple[str, ...]
    evidence: VariantEvidence = field(repr=False)

    def measure(self, metric: Metric, scope: Scope = WHOLE) -> Measured:
        """A metric of one workload, eval set or category, with its interval."""
        return measure(self.evidence, metric, scope)

    def value(self, metric: str | None) -> float | None:
        """None where the value is missing, or where there is no such bound."""
        return self.readings[metric].value if metric else None

    @property
    def place(self) -> str | None:
        """Where it stands to the Pareto frontier; None where a value on an axis is missing."""
        if self.on_frontier:
            return "on it"
        return "dominated" if self.dominated_by else None

    @property
    def ok(self) -> bool:
        return self.status is Status.OK


def kernel_note(engine: EngineInfo | None) -> str:
    """What kernels do that are not native on this device; empty where all are."""
    fallbacks = engine.fallback_kernels if engine else {}
    does = "; ".join(f"{kernel} {words}" for kernel, words in fallbacks.items())
    return f"{NOT_NATIVE} ({does})" if does else ""


def build(params: Params, gathered: Gathered) -> tuple[Row, ...]:
    readings = {e.variant: {metric.name: metric.compute(e) for metric in METRICS} for e in gathered.variants}
    ok = [e.variant for e in gathered.variants if e.status is Status.OK]
    beaten_by = _dominators({variant: readings[variant] for variant in ok})
    return tuple(_row(params, e, readings[e.variant], beaten_by) for e in gathered.variants)


def _row(
    params: Params, evidence: VariantEvidence, readings: dict[str, Reading], beaten_by: dict[str, list[str]]
) -> Row:
    return Row(
        variant=evidence.variant,
        engine=params.variants[evidence.variant].engine,
        status=evidence.status,
        reason=evidence.reason,
        is_baseline=evidence.is_baseline,
        samples={metric.name: metric.sample(evidence) for metric in METRICS if metric.sample},
        artifact_sha256=evidence.artifact_sha256,
        readings=readings,
        kernel_note=kernel_note(evidence.speed.engine),
        on_frontier=beaten_by.get(evidence.variant) == [],
        dominated_by=tuple(beaten_by.get(evidence.variant, ())),
        evidence=evidence,
    )


def _dominators(readings: dict[str, dict[str, Reading]]) -> dict[str, list[str]]:
    """Of the variants that have a value on every axis; the others are neither on the frontier nor dominated."""
    axes = frontier.axes(readings.values())
    points: dict[str, list[float]] = {}
    for variant, found in readings.items():
        values = [found[axis.name].value for axis in axes]
        present = [value for value in values if value is not None]
        if len(present) == len(axes):
            points[variant] = present
    return frontier.dominators(points, [bool(axis.higher_is_better) for axis in axes])
