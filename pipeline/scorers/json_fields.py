"""Extraction to a flat JSON object: the share of fields that came out right."""

from __future__ import annotations

from typing import Any

from pipeline.scorers import json_values


def score(output: str, target: dict[str, Any]) -> float:
    """Share of the target's fields with an equal value in the first JSON object of the output; 0 without one."""
    found = json_values.first(output, "{")
    if found is None:
        return 0.0
    right = sum(name in found and json_values.equal(found[name], value) for name, value in target.items())
    return right / len(target)


def target_problems(target: Any) -> list[str]:
    if not isinstance(target, dict) or not target:
        return ["target must be a JSON object with at least one field"]
    return [
        f"target field {name!r} must be a text, number, true, false or null"
        for name, value in target.items()
        if not isinstance(value, json_values.SCALARS)
    ]
