"""The Pareto frontier: variants that no other one beats or equals on every axis while beating it on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.metrics.catalogue import BY_NAME, Metric

AXES: tuple[Metric, ...] = tuple(BY_NAME[name] for name in ("quality", "decode_tokens_per_s", "peak_memory_bytes"))
"""What is traded: quality ↑, speed ↑, memory ↓."""


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
