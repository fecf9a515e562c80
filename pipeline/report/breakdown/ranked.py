"""By what the variants were ranked: the score of each one, and what each profile values and picks."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.metrics import display
from pipeline.metrics.axes import parse_axis
from pipeline.params import Params
from pipeline.records import Decision, VariantDecision
from pipeline.report import cells
from pipeline.report.cells import Cell


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


def score(found: VariantDecision) -> Cell:
    """With its interval; missing where what the profile values was not measured."""
    value, low, high = found.score, found.score_ci_low, found.score_ci_high
    if value.value is None:
        return cells.absent(value.reason or "")
    if low.value is None or high.value is None:
        return Cell(_plain(value.value), reason=f"no interval: {low.reason or high.reason}", value=value.value)
    return Cell(_plain(value.value), display.span(_plain, low.value, high.value), value=value.value)


def _plain(value: float) -> str:
    return f"{value:.2f}"
