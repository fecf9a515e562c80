"""Speed-ups against the baseline in two reports, where both are of the same machine and the same software."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.diff.records import SpeedChange
from pipeline.diff.snapshot import Snapshot
from pipeline.report.report_records import Figure, SpeedLevel

_ENGINE = ("name", "packages", "device", "device_name", "compute_dtype", "threads", "attention", "settings")
"""What of an engine decides its speed beside the variant's own weights and kernels."""
ABSENT = "not recorded"
NOT_ANEW = "not measured anew"


@dataclass(frozen=True)
class Compared:
    refused: tuple[str, ...]
    """Why no speed is compared; then there are no changes."""
    changes: tuple[SpeedChange, ...]


def compare(a: Snapshot, b: Snapshot) -> Compared:
    refused = tuple(_refused(a, b))
    return Compared(refused, () if refused else tuple(_changes(a, b)))


def _refused(a: Snapshot, b: Snapshot) -> Iterator[str]:
    """Everything that makes the speeds of the two reports speeds of different things."""
    yield from environment_differences(a, b)
    if a.decision.baseline != b.decision.baseline:
        yield f"baseline: {a.decision.baseline} → {b.decision.baseline}"
        return
    baseline = a.decision.baseline
    ours, theirs = (side.table.get(baseline, {}).get("artifact_sha256") for side in (a, b))
    if not ours or ours != theirs:
        yield f"artifact of the baseline {baseline}: {_short(ours)} → {_short(theirs)}"
    yield from _engine_differences(a, b, baseline)


def environment_differences(a: Snapshot, b: Snapshot) -> Iterator[str]:
    """Each field of environment.json that differs, packages one by one; a file that is missing differs."""
    for side in (a, b):
        if side.environment is None:
            yield f"machine: {side.info.given} does not say on which it was measured"
    if a.environment is not None and b.environment is not None:
        yield from _differences(_flat(a.environment), _flat(b.environment), "")


def _engine_differences(a: Snapshot, b: Snapshot, variant: str) -> Iterator[str]:
    ours, theirs = (_engine(side, variant) for side in (a, b))
    yield from _differences(ours, theirs, f"engine of {variant}, ")


def _engine(side: Snapshot, variant: str) -> dict[str, Any]:
    engine = side.speed.get(variant, {}).get("engine")
    if not isinstance(engine, dict):
        return {}
    return _flat({name: engine[name] for name in _ENGINE if name in engine})


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that hold fields are taken apart; the schema version is no condition of a measurement."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": each for inner, each in value.items()}
        elif name != "schema_version":
            found[name] = value
    return found


def _differences(a: Mapping[str, Any], b: Mapping[str, Any], of: str) -> Iterator[str]:
    for name in dict.fromkeys([*a, *b]):
        ours, theirs = a.get(name, ABSENT), b.get(name, ABSENT)
        if ours != theirs:
            yield f"{of}{name}: {_short(ours)} → {_short(theirs)}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else ABSENT if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"


# --- ratios ----------------------------------------------------------------------------------------------------


Key = tuple[str, str, int | None]
"""Variant, workload, concurrency."""


def _changes(a: Snapshot, b: Snapshot) -> Iterator[SpeedChange]:
    before, after = (_levels(side) for side in (a, b)) if a.report and b.report else (_table(a), _table(b))
    for key, (now, rate_now) in after.items():
        if key in before:
            was, rate_was = before[key]
            record = b.speed.get(key[0])
            same = bool(record) and a.speed.get(key[0]) == record
            yield SpeedChange(
                variant=key[0],
                workload=key[1],
                concurrency=key[2],
                a=was,
                b=now,
                change=change(was, now, NOT_ANEW if same else _work_differs(a, b, key)),
                decode_a=rate_was,
                decode_b=rate_now,
                same_readings=same,
            )


def _levels(side: Snapshot) -> dict[Key, tuple[Figure, Figure]]:
    """Speed-up and decode rate of every workload and level of report.json; the baseline is 1 of itself."""
    assert side.report, "asked only where both have one"
    found = (level for level in side.report.speed if level.variant != side.decision.baseline)
    return {(level.variant, level.workload, level.concurrency): _figures(level) for level in found}


def _figures(level: SpeedLevel) -> tuple[Figure, Figure]:
    absent = Figure(value=None, reason="not in the report")
    return level.metrics.get("speedup", absent), level.metrics.get("decode_tokens_per_s", absent)


def _table(side: Snapshot) -> dict[Key, tuple[Figure, Figure]]:
    """The deciding workload of each variant, from pareto.csv."""
    names = [name for name in side.variants if name != side.decision.baseline]
    return {
        (name, side.decision.workload, None): (
            side.figure(name, "speedup", "speedup_ci_low", "speedup_ci_high"),
            side.figure(name, "decode_tokens_per_s"),
        )
        for name in names
    }


def _work_differs(a: Snapshot, b: Snapshot, key: Key) -> str | None:
    """Why a variant's speed on a workload is of different work in the two reports, if so."""
    variant, workload, concurrency = key
    if not a.speed.get(variant) and not b.speed.get(variant):
        return "no speed record on either side says what was measured"
    found = [*_engine_differences(a, b, variant)]
    ours, theirs = (_work(side, variant, workload, concurrency) for side in (a, b))
    found += _differences(ours, theirs, f"workload {workload}, ")
    return "; ".join(found) or None


def _work(side: Snapshot, variant: str, workload: str, concurrency: int | None) -> dict[str, Any]:
    listed = side.speed.get(variant, {}).get("workloads")
    asked = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    levels = [each for each in asked if each.get("workload") == workload]
    fitting = [each for each in levels if concurrency in (None, each.get("concurrency", 1))]
    fields = ("prompt_sha256", "prompt_tokens", "output_tokens")
    return {name: each[name] for each in fitting[:1] for name in fields if name in each}


def change(was: Figure, now: Figure, refused: str | None = None) -> Figure:
    """The newer ratio / the older one, with its 95 % interval.

    With r the quotient, and on a log scale: r × exp(± √(Δ² + Δ'²)), where Δ and Δ' are the distances of the two ratios
    to their own interval's ends, crosswise (MOVER for a difference: Zou & Donner 2008, Statistics in Medicine
    27:1693). The two ratios were measured apart, so they are independent.
    """
    if refused:
        return Figure(value=None, reason=refused)
    if was.value is None or now.value is None:
        return Figure(value=None, reason=was.reason or now.reason)
    ratio = now.value / was.value
    if was.low is None or was.high is None or now.low is None or now.high is None:
        return Figure(value=ratio, reason=was.reason or now.reason or "no interval: one side has none")
    down = math.hypot(math.log(now.value / now.low), math.log(was.high / was.value))
    up = math.hypot(math.log(now.high / now.value), math.log(was.value / was.low))
    return Figure(value=ratio, low=ratio * math.exp(-down), high=ratio * math.exp(up))
