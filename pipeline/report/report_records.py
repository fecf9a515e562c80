"""The data contract of reports/report.json: everything that the report says, for machines.

Its JSON Schema is published in docs/schema, made from these models by `python scripts/schemas.py`. The version goes up
when a field is taken away or changes its meaning; a new field leaves it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from pipeline.records import Decision, Environment, Reading, Record, Sha256, Status

SCHEMA_VERSION: Literal[1] = 1


class Figure(Record):
    """The value of a metric, or null with the reason; in the metric's unit."""

    value: float | None
    reason: str | None = None
    """Why there is no value, or, where there is one, why it has no interval."""
    low: float | None = None
    high: float | None = None
    """Ends of the 95 % interval; null where the metric has none."""

    @model_validator(mode="after")
    def _missing_has_a_reason(self) -> Figure:
        if self.value is None and self.reason is None:
            raise ValueError("a figure without a value has a reason")
        return self


class MetricInfo(Record):
    """What a figure is of; figures stand by its name."""

    name: str
    title: str
    unit: str
    higher_is_better: bool | None
    """Null where neither direction is better in itself."""
    formula: str


class GateInfo(Record):
    gate: str
    requirement: str
    """In words, with a relative bound multiplied out."""


class VariantReport(Record):
    variant: str
    engine: str
    status: Status
    reason: str | None
    is_baseline: bool
    artifact_sha256: Sha256 | None
    kernel_note: str
    """That the kernels are not native on this device, so that its speed says little about another one; else empty."""
    metrics: dict[str, Figure]
    """By metric name; every metric of `metrics` is there."""


class SpeedLevel(Record):
    """One variant on one workload at one concurrency."""

    variant: str
    workload: str
    concurrency: int
    is_headline: bool
    """The workload at its own concurrency that stands in the table and decides."""
    prompt_tokens: int
    output_tokens: int
    metrics: dict[str, Figure]


class QualityChange(Record):
    """One variant against the baseline on the same items of one category, or of a whole set."""

    variant: str
    eval_set: str
    category: str | None
    """Null: the whole set."""
    items: int
    lost: int
    won: int
    delta: Figure
    """Mean score of the variant - the baseline's."""
    p: float
    p_holm: float
    """After Holm's correction over all categories, or over all sets."""
    test: str
    detectable_drop: Reading


class Flip(Record):
    """An item whose pass or fail differs from the baseline's."""

    variant: str
    eval_set: str
    item_id: str
    category: str
    critical: bool
    lost: bool
    """True: the baseline passed it. False: the variant did."""


class FailureReport(Record):
    variant: str
    what: str
    """The stage or the requests that failed, or the numbers that must not be used."""
    reason: str


class Condition(Record):
    section: str
    label: str
    value: str


class Report(Record):
    """Equal records and params give equal bytes."""

    schema_version: Literal[1] = SCHEMA_VERSION
    model: str
    currency: str
    """Of metrics whose unit is `currency`."""
    decision: Decision
    """The same as in decision.json."""
    gates: list[GateInfo]
    metrics: list[MetricInfo]
    variants: list[VariantReport]
    speed: list[SpeedLevel]
    quality: list[QualityChange]
    flips: list[Flip]
    failures: list[FailureReport]
    warnings: list[str]
    conditions: list[Condition]
    environment: Environment
