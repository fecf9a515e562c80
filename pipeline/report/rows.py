"""One row per variant: its status and every metric of the catalogue. The table that everything else reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipeline.metrics.catalogue import METRICS, Metric
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.scope import WHOLE, Measured, Scope, measure, narrow
from pipeline.params import Params
from pipeline.records import EngineInfo, Reading, Status
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
    artifact_sha256: str | None
    readings: Mapping[str, Reading]
    """By metric name; every metric of the catalogue is there."""
    kernel_note: str
    """That the kernels are not native on this device, so that its speed says little about another one; else empty."""
    evidence: VariantEvidence = field(repr=False)
    on_frontier: bool = False
    """Over the axes of `decision.frontier`."""
    dominated_by: tuple[str, ...] = ()
    """Those on the frontier that beat it."""
    _measured: dict[tuple[str, Scope], Measured] = field(default_factory=dict, repr=False, compare=False)
    _against: dict[tuple[str, Scope], VariantEvidence] = field(default_factory=dict, repr=False, compare=False)

    def measure(self, metric: Metric, scope: Scope = WHOLE) -> Measured:
        """A metric of one workload, eval set or category, with its interval; computed once."""
        key = metric.name, scope
        if key not in self._measured:
            self._measured[key] = measure(self.evidence, metric, scope)
        return self._measured[key]

    def against(self, other: Row, scope: Scope = WHOLE) -> VariantEvidence:
        """Its evidence of one part with another variant in the baseline's place; each pair is compared once."""
        key = other.variant, scope
        if key not in self._against:
            self._against[key] = replace(narrow(self.evidence, scope), baseline=narrow(other.evidence, scope))
        return self._against[key]

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
    """Rows that have no place on the frontier yet; see `frontier.placed`."""
    return tuple(_row(params, evidence) for evidence in gathered.variants)


def _row(params: Params, evidence: VariantEvidence) -> Row:
    return Row(
        variant=evidence.variant,
        engine=params.variants[evidence.variant].engine,
        status=evidence.status,
        reason=evidence.reason,
        is_baseline=evidence.is_baseline,
        artifact_sha256=evidence.artifact_sha256,
        readings={metric.name: metric.compute(evidence) for metric in METRICS},
        kernel_note=kernel_note(evidence.speed.engine),
        evidence=evidence,
    )
