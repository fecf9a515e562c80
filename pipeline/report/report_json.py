"""From an analysis to reports/report.json."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.metrics import validity
from pipeline.metrics.catalogue import Metric
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.metric import Narrows
from pipeline.metrics.paired_tests import Comparison
from pipeline.metrics.scope import Measured, Scope
from pipeline.records import Interval, Status
from pipeline.report import cells, conditions, gates, warnings
from pipeline.report.analysis import Analysis
from pipeline.report.breakdown import failures
from pipeline.report.report_records import (
    Condition,
    FailureReport,
    Figure,
    Flip,
    GateInfo,
    MetricInfo,
    QualityChange,
    Report,
    SpeedLevel,
    VariantReport,
)
from pipeline.report.rows import Row

SHOWN: tuple[Metric, ...] = cells.COLUMNS + cells.MORE_COLUMNS
"""Without the ends of intervals, which stand in the figure that they belong to."""
_OF_WORKLOAD = tuple(metric for metric in SHOWN if metric.narrows is Narrows.WORKLOAD)


def build(analysis: Analysis) -> Report:
    params, gathered = analysis.params, analysis.gathered
    return Report(
        model=params.model.name,
        currency=params.serving.currency,
        decision=analysis.decision,
        gates=[
            GateInfo(gate=name, requirement=gates.describe(gate, analysis.baseline))
            for name, gate in params.gates.items()
        ],
        metrics=[_info(metric) for metric in SHOWN],
        variants=[_variant(row) for row in analysis.rows],
        speed=[level for row in analysis.rows for level in _levels(row)],
        quality=[change for evidence in gathered.variants for change in _changes(evidence)],
        flips=[flip for evidence in gathered.variants for flip in _flips(evidence)],
        failures=list(failed(analysis)),
        warnings=warnings.of(params, gathered),
        conditions=[
            Condition(section=section.title, label=label, value=value)
            for section in conditions.describe(params, gathered)
            for label, value in section.lines
        ],
        environment=gathered.environment,
    )


def failed(analysis: Analysis) -> Iterator[FailureReport]:
    """Variants that are not ok, numbers that must not be used, and requests that gave none."""
    variants = analysis.gathered.variants
    for row in analysis.rows:
        if not row.ok:
            yield FailureReport(variant=row.variant, what=row.status.value, reason=row.reason or "")
    for refused in failures.refused(variants):
        yield FailureReport(variant=refused.variant, what=f"{validity.INVALID}, {refused.what}", reason=refused.reason)
    for lost in failures.lost(variants):
        yield FailureReport(variant=lost.variant, what=lost.words, reason=lost.reason)


def _info(metric: Metric) -> MetricInfo:
    return MetricInfo(
        name=metric.name,
        title=metric.title,
        unit=metric.unit,
        higher_is_better=metric.higher_is_better,
        formula=metric.formula,
    )


def _variant(row: Row) -> VariantReport:
    return VariantReport(
        variant=row.variant,
        engine=row.engine,
        status=row.status,
        reason=row.reason,
        is_baseline=row.is_baseline,
        artifact_sha256=row.artifact_sha256,
        kernel_note=row.kernel_note,
        metrics={metric.name: _figure(row.measure(metric)) for metric in SHOWN},
    )


def _levels(row: Row) -> Iterator[SpeedLevel]:
    """Every workload at every concurrency that was measured, in the order of the record."""
    evidence = row.evidence
    if evidence.speed.status is not Status.OK:
        return
    for readings in evidence.speed.workloads:
        scope = Scope(workload=readings.workload, concurrency=readings.concurrency)
        own = readings.concurrency == evidence.concurrency.get(readings.workload, 1)
        yield SpeedLevel(
            variant=row.variant,
            workload=readings.workload,
            concurrency=readings.concurrency,
            is_headline=own and readings.workload == evidence.headline,
            prompt_tokens=readings.prompt_tokens,
            output_tokens=readings.output_tokens,
            metrics={metric.name: _figure(row.measure(metric, scope)) for metric in _OF_WORKLOAD},
        )


def _changes(evidence: VariantEvidence) -> Iterator[QualityChange]:
    """None where the variant was not compared; its figures then say why."""
    if not isinstance(evidence.comparisons, str):
        for found in evidence.comparisons:
            yield _change(evidence.variant, found)


def _change(variant: str, found: Comparison) -> QualityChange:
    return QualityChange(
        variant=variant,
        eval_set=found.eval_set,
        category=found.category,
        items=found.n,
        lost=found.lost,
        won=found.won,
        delta=of_interval(found.delta),
        p=found.p,
        p_holm=found.p_holm,
        test=found.test.value,
        detectable_drop=found.detectable_drop,
    )


def _flips(evidence: VariantEvidence) -> Iterator[Flip]:
    if isinstance(evidence.paired, str):
        return
    for part in evidence.paired:
        theirs = {item.item_id: item.passed for item in part.theirs}
        for item in part.ours:
            if item.passed != theirs[item.item_id]:
                yield Flip(
                    variant=evidence.variant,
                    eval_set=part.name,
                    item_id=item.item_id,
                    category=item.category,
                    critical=item.critical,
                    lost=not item.passed,
                )


def _figure(found: Measured) -> Figure:
    value, low, high = found.value, found.low, found.high
    if value.value is None or low is None or high is None:
        return Figure(value=value.value, reason=value.reason)
    if low.value is None or high.value is None:
        return Figure(value=value.value, reason=f"no interval: {low.reason or high.reason}")
    return Figure(value=value.value, low=low.value, high=high.value)


def of_interval(found: Interval) -> Figure:
    low, high = found.ci_low, found.ci_high
    if low.value is None or high.value is None:
        return Figure(value=found.mean, reason=f"no interval: {low.reason or high.reason}")
    return Figure(value=found.mean, low=low.value, high=high.value)
