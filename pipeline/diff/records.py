"""The data contract of `quantgate diff --json`. A is the older side, B the newer one.

Its JSON Schema is published in docs/schema. The version goes up when a field is taken away or changes its meaning.
"""

from __future__ import annotations

from typing import Any, Literal

from pipeline.records import Record, Sha256
from pipeline.report.report_records import Figure

SCHEMA_VERSION: Literal[1] = 1


class SideInfo(Record):
    given: str
    """As it was asked for: a revision, or a folder."""
    commit: str | None
    """Null for a folder."""
    schema_version: int
    """Of its decision.json."""


class DecisionChange(Record):
    changed: bool
    """Another variant is recommended."""
    a: str | None
    b: str | None
    """The recommended variant; null where none is."""
    profile_a: str | None
    profile_b: str | None
    """Whose weights rank; null in older reports."""
    profiles_a: dict[str, str | None]
    profiles_b: dict[str, str | None]
    """What each profile would ship; empty in older reports."""
    headline_a: str
    headline_b: str


class VerdictChange(Record):
    """Of one gate, or of the variant over all gates; only those that changed."""

    variant: str
    gate: str | None
    """Null: over all gates."""
    a: str | None
    b: str | None
    """PASS, FAIL or UNDECIDED; null where the gate was not asked for."""
    bound_a: float | None
    bound_b: float | None
    reason: str
    """Of B's verdict; of A's where B has none."""


class QualityChange(Record):
    """One variant of B against the same variant of A, on the items that both were asked alike."""

    variant: str
    eval_set: str | None
    """Null: all sets, weighted as in B's params.yaml."""
    same: int
    """Items with the same id, prompt and target: what `delta` is over."""
    altered: int
    """Items with the same id and another prompt or target; not compared."""
    new: int
    gone: int
    delta: Figure
    """Mean score in B - in A, with its paired 95 % interval."""
    lost: list[str]
    """Items that passed in A and do not in B; over all sets each as `set/item`."""
    won: list[str]


class SpeedChange(Record):
    """One variant on one workload: its speed-up against the baseline in A and in B."""

    variant: str
    workload: str
    concurrency: int | None
    """Null: the workload's own, where an older report does not say."""
    a: Figure
    b: Figure
    change: Figure
    """B's speed-up / A's; the two were not measured in turns, so their intervals are put together."""
    decode_a: Figure
    decode_b: Figure
    """Decode tokens/s. Rates of two days differ by the machine's drift as well: not compared."""
    same_readings: bool
    """The speed record is the same in both: it was not measured anew, so there is no change to tell."""


class MemoryChange(Record):
    variant: str
    metric: str
    a: Figure
    b: Figure
    """In bytes."""


class ArtifactChange(Record):
    variant: str
    same: bool | None
    """The same bytes; null where a side has no artifact."""
    a: Sha256 | None
    b: Sha256 | None


class ParamChange(Record):
    key: str
    """Its place in params.yaml, with dots."""
    in_a: bool
    in_b: bool
    a: Any
    b: Any


class Difference(Record):
    schema_version: Literal[1] = SCHEMA_VERSION
    a: SideInfo
    b: SideInfo
    decision: DecisionChange
    variants_added: list[str]
    variants_removed: list[str]
    verdicts: list[VerdictChange]
    quality: list[QualityChange]
    speed_refused: list[str]
    """Why speeds are not compared, each with what differs; empty where they are."""
    speed: list[SpeedChange]
    memory: list[MemoryChange]
    artifacts: list[ArtifactChange]
    params: list[ParamChange]
    notes: list[str]
    """What could not be read or compared, and what to know about the rest."""
