"""The Pareto frontier: variants that no other one beats or equals on every axis while beating it on one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.records import Reading


def axes(variants: Iterable[Mapping[str, Reading]]) -> tuple[Metric, ...]:
    """What is traded between variants with these readings: quality ↑, decode speed ↑, peak memory ↓.

    Speed is that against the baseline where all of them have it: rates that were not measured at the same time differ
    by the machine's drift as well.
    """
    paired = all(readings["speedup"].value is not None for readings in variants)
    speed = "speedup" if paired else "decode_tokens_per_s"
    return tuple(BY_NAME[name] for name in ("quality", speed, "peak_memory_bytes"))


def dominates(one: Sequence[float], other: Sequence[float], higher_is_better: Sequence[bool]) -> bool:
    """No worse than the other on any axis and better on at least one."""
    gains = [
        (mine - theirs) * (1 if higher else -1)
        for mine, theirs, higher in zip(one, other, higher_is_better, strict=True)
    ]
    return min(gains) >= 0 and max(gains) > 0


def dominators(points: Mapping[str, Sequence[float]], higher_is_better: Sequence[bool]) -> dict[str, list[str]]:
    """For each point the names of those that dominate it, in their order; none means it is on the frontier.

    Points that are equal on every axis do not dominate each other: they share the frontier.
    """
    return {
        name: [rival for rival, theirs in points.items() if dominates(theirs, own, higher_is_better)]
        for name, own in points.items()
    }
