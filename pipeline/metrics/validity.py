"""Numbers that must not be used, and why. What is not known is not a violation.

Three scopes, as wide as what was seen reaches:

- the record: something else was at work while it was measured, so every time in it is in doubt, and every ratio;
- a workload: the outputs are not as long as pinned, so the two sides did different work;
- a workload's times and rates: they spread more than allowed. Ratios are not refused for that: they are of turns
  taken back to back, which drift meets alike, and their interval says how far they can be trusted.

Parameters on the wrong device make the status of the whole record INVALID, which the run itself sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from pipeline.metrics import display
from pipeline.metrics.latency import WorkloadSpeed, summarize
from pipeline.readings import ProcessReading, RequestReading, Side, SpeedRecord, WorkloadReadings
from pipeline.records import Reading, Status, missing

INVALID = "INVALID"
"""In place of a number that there is, but that must not be used."""
_INVALID_REASON = re.compile(rf"({INVALID}|[\w -]+ {Status.INVALID.value}): ")
IDLE_CPU_SHARE = 0.05
"""CPU time of a process that should sleep, above which it disturbs the other: garbage collection, polling threads."""


@dataclass(frozen=True)
class _Check:
    read: Callable[[ProcessReading], Reading]
    allowed: float
    """The most that is no violation."""
    say: Callable[[float], str]


_SWAP = _Check(attrgetter("swap_bytes"), 0, lambda value: f"{display.memory(value)} of the worker were in swap")
_CHECKS = (
    _Check(attrgetter("foreign_gpu_processes"), 0, lambda value: f"{value:.0f} foreign process(es) on the GPU"),
    _Check(
        attrgetter("throttled_share"),
        0,
        lambda value: f"clocks were held down in {display.share(value)} of the requests",
    ),
    _SWAP,
    _Check(
        attrgetter("idle_cpu_share"),
        IDLE_CPU_SHARE,
        lambda value: f"the idle process took CPU time of {display.share(value)} of the other's turns",
    ),
)


def invalid(reasons: Sequence[str]) -> str | None:
    """The reason in a cell, or None when there is nothing to object to."""
    return f"{INVALID}: {'; '.join(reasons)}" if reasons else None


def is_invalid(reason: str) -> bool:
    """Whether a number is missing because it must not be used: by `invalid`, or since its stage's record is INVALID."""
    return _INVALID_REASON.match(reason) is not None


def record_reasons(record: SpeedRecord) -> list[str]:
    """Why no time of this record may be used; the worst process, of either side, speaks for all."""
    return list(_worst(record.processes, _CHECKS))


def memory_reasons(record: SpeedRecord) -> list[str]:
    """Why no peak memory of this record may be used: on a CPU, swapped memory is not resident.

    Neither foreign processes nor clocks nor a busy neighbour change what the worker itself allocates.
    """
    if record.engine is not None and record.engine.device.startswith("cuda"):
        return []
    ours = [process for process in record.processes if process.side is Side.VARIANT]
    return list(_worst(ours, [_SWAP]))


def workload_reasons(readings: WorkloadReadings) -> list[str]:
    """Why neither times nor ratios of this workload may be used."""
    lengths = {len(turn.token_s) for turn in _turns(readings)} - {readings.output_tokens}
    if not lengths:
        return []
    found = ", ".join(map(str, sorted(lengths)))
    return [f"an output of {found} tokens where {readings.output_tokens} are pinned"]


def spread_reasons(speed: WorkloadSpeed, max_spread: float | None) -> list[str]:
    """Why the times and rates of this workload may not be used."""
    spread = speed.decode_spread.value
    if max_spread is None or spread is None or spread <= max_spread:
        return []
    return [f"decode rates spread over {display.share(spread)} of their median, {display.share(max_spread)} is allowed"]


def checked(readings: WorkloadReadings, max_spread: float | None, reasons: Sequence[str] = ()) -> WorkloadSpeed:
    """The figures of the variant's side, missing where they must not be used; `reasons` are those of the record."""
    speed = summarize(readings)
    found = invalid([*reasons, *workload_reasons(readings), *spread_reasons(speed, max_spread)])
    return _refused(speed, found) if found else speed


def _refused(speed: WorkloadSpeed, reason: str) -> WorkloadSpeed:
    """The same workload with every figure missing, but for the spread, which is a reason itself."""
    shown = {name: value for name, value in vars(speed).items() if isinstance(value, Reading)}
    none: dict[str, Any] = dict.fromkeys(shown.keys() - {"decode_spread"}, missing(reason))
    return replace(speed, **none)


def _worst(processes: Sequence[ProcessReading], checks: Sequence[_Check]) -> Iterator[str]:
    for check in checks:
        values = [value for process in processes if (value := check.read(process).value) is not None]
        if max(values, default=check.allowed) > check.allowed:
            yield check.say(max(values))


def _turns(readings: WorkloadReadings) -> Iterator[RequestReading]:
    for pair in readings.pairs:
        yield pair.variant
        if pair.baseline is not None:
            yield pair.baseline
