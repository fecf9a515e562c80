"""From two snapshots to what changed between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.diff import quality, speed
from pipeline.diff.records import (
    ArtifactChange,
    DecisionChange,
    Difference,
    MemoryChange,
    ParamChange,
    VerdictChange,
)
from pipeline.diff.snapshot import GateRead, Snapshot, VariantRead
from pipeline.report.breakdown.words import counted

MEMORY = ("weight_bytes", "peak_memory_bytes")


def compare(a: Snapshot, b: Snapshot) -> Difference:
    """What changed from A to B; parts that cannot be compared say why."""
    both = [name for name in b.variants if name in a.variants]
    speeds, scores = speed.compare(a, b), quality.compare(a, b)
    return Difference(
        a=a.info,
        b=b.info,
        decision=DecisionChange(
            changed=a.decision.pick != b.decision.pick,
            a=a.decision.pick,
            b=b.decision.pick,
            profile_a=a.decision.profile,
            profile_b=b.decision.profile,
            profiles_a=a.decision.profiles,
            profiles_b=b.decision.profiles,
            headline_a=a.decision.headline,
            headline_b=b.decision.headline,
        ),
        variants_added=[name for name in b.variants if name not in a.variants],
        variants_removed=[name for name in a.variants if name not in b.variants],
        verdicts=list(_verdicts(a, b, both)),
        quality=scores,
        speed_refused=list(speeds.refused),
        speed=list(speeds.changes),
        memory=[
            MemoryChange(variant=name, metric=metric, a=a.figure(name, metric), b=b.figure(name, metric))
            for name in both
            for metric in MEMORY
        ],
        artifacts=[_artifact(a, b, name) for name in both],
        params=list(_params(a.params, b.params)),
        notes=[*a.notes, *b.notes, *_notes(a, b, bool(scores))],
    )


def _verdicts(a: Snapshot, b: Snapshot, both: list[str]) -> Iterator[VerdictChange]:
    """Of each variant of both: over all gates, then gate by gate."""
    before = {found.variant: found for found in a.decision.variants}
    after = {found.variant: found for found in b.decision.variants}
    for name in both:
        was, now = before[name], after[name]
        if was.verdict != now.verdict:
            yield _verdict(name, None, _overall(was), _overall(now))
        gates_a, gates_b = ({gate.gate: gate for gate in found.gates} for found in (was, now))
        for gate in dict.fromkeys([*gates_b, *gates_a]):
            old, new = gates_a.get(gate), gates_b.get(gate)
            if (old and old.verdict) != (new and new.verdict):
                yield _verdict(name, gate, old, new)


def _overall(found: VariantRead) -> GateRead:
    return GateRead(gate="", verdict=found.verdict, reason=found.why)


def _verdict(variant: str, gate: str | None, was: GateRead | None, now: GateRead | None) -> VerdictChange:
    latest = now or was
    return VerdictChange(
        variant=variant,
        gate=gate,
        a=was.verdict if was else None,
        b=now.verdict if now else None,
        bound_a=was.bound if was else None,
        bound_b=now.bound if now else None,
        reason=latest.reason if latest else "",
    )


def _artifact(a: Snapshot, b: Snapshot, variant: str) -> ArtifactChange:
    ours, theirs = (side.table.get(variant, {}).get("artifact_sha256") or None for side in (a, b))
    return ArtifactChange(variant=variant, same=ours == theirs if ours and theirs else None, a=ours, b=theirs)


def _params(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[ParamChange]:
    """None where a side has no params.yaml: then nothing is known to have changed."""
    if not a or not b:
        return
    ours, theirs = dict(_flat(a)), dict(_flat(b))
    for key in dict.fromkeys([*ours, *theirs]):
        if key not in ours or key not in theirs or ours[key] != theirs[key]:
            yield ParamChange(key=key, in_a=key in ours, in_b=key in theirs, a=ours.get(key), b=theirs.get(key))


def _flat(value: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its place, with dots; lists are values."""
    for name, inner in value.items():
        key = f"{place}{name}"
        if isinstance(inner, dict) and inner:
            yield from _flat(inner, f"{key}.")
        else:
            yield key, inner


def _notes(a: Snapshot, b: Snapshot, scored: bool) -> Iterator[str]:
    moved = list(speed.environment_differences(a, b))
    if moved and scored:
        many = counted(len(moved), "difference", "differences")
        yield (
            f"the two were made on different machines or software ({many}): kernels that round otherwise flip some "
            "answers and move peak memory by themselves"
        )
    if a.info.schema_version != b.info.schema_version:
        yield (
            f"decision.json is of schema {a.info.schema_version} in {a.info.given} and {b.info.schema_version} in "
            f"{b.info.given}; what both have is compared, though it may have been measured in another way"
        )
