"""By what the variants were ranked: what each profile values, and what it picks."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.metrics.axes import parse_axis
from pipeline.params import Params
from pipeline.records import Decision


@dataclass(frozen=True)
class Profile:
    name: str
    weights: tuple[tuple[str, str], ...]
    """Title of an axis, and its share of all weights."""
    pick: str | None


def profiles(params: Params, decision: Decision) -> list[Profile]:
    """Those of params.yaml, in its order."""
    return [
        Profile(name, _shares(profile.weights), decision.profiles[name])
        for name, profile in params.decision.profiles.items()
    ]


def _shares(weights: dict[str, float]) -> tuple[tuple[str, str], ...]:
    whole = sum(weights.values())
    return tuple((parse_axis(name).title, f"{100 * weight / whole:.0f} %") for name, weight in weights.items())
