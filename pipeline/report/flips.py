"""The items whose pass or fail is another one than the baseline's, as the report's explorer reads them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.intervals import flips
from pipeline.quality_records import FinishReason, ItemResult
from pipeline.report import embed, worddiff

MAX_BYTES = 3 * 2**20
"""Of the embedded items, so that the page stays under 6 MB; what does not fit is counted and told."""


@dataclass(frozen=True)
class Flip:
    eval_set: str
    variant: str
    ours: ItemResult
    theirs: ItemResult

    @property
    def lost(self) -> bool:
        """The baseline passed and the variant did not; otherwise it is the other way round."""
        return self.theirs.passed

    @property
    def weight(self) -> int:
        """The smaller, the sooner one has to look at it."""
        return 2 * (not self.lost) + (not self.ours.critical)


@dataclass(frozen=True)
class Count:
    """How many items of a variant flipped."""

    variant: str
    lost: int = 0
    won: int = 0
    critical: int = 0
    """Of the lost ones."""
    reason: str = ""
    """Why nothing was compared."""


def found(variants: Sequence[VariantEvidence]) -> list[Flip]:
    """Lost ones first, and the critical ones first among those; then by eval set and item."""
    every = [flip for evidence in variants for flip in _of(evidence)]
    sets = {name: place for place, name in enumerate(dict.fromkeys(s.name for e in variants for s in e.quality))}
    return sorted(every, key=lambda flip: (flip.weight, sets[flip.eval_set], flip.ours.item_id))


def _of(evidence: VariantEvidence) -> Iterator[Flip]:
    if isinstance(evidence.paired, str):
        return
    for part in evidence.paired:
        both = flips(part.ours, part.theirs)
        for ours, theirs in (*both.lost, *both.won):
            yield Flip(part.name, evidence.variant, ours, theirs)


def counts(variants: Sequence[VariantEvidence], flipped: Sequence[Flip]) -> list[Count]:
    """One for each variant but the baseline."""
    lost = Counter(flip.variant for flip in flipped if flip.lost)
    won = Counter(flip.variant for flip in flipped if not flip.lost)
    critical = Counter(flip.variant for flip in flipped if flip.lost and flip.ours.critical)
    return [
        Count(e.variant, reason=e.paired)
        if isinstance(e.paired, str)
        else Count(e.variant, lost[e.variant], won[e.variant], critical[e.variant])
        for e in variants
        if not e.is_baseline
    ]


def payload(flipped: Sequence[Flip], max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """What the explorer reads: each asked item once, each flip with what changed in the answer.

    `left_out` counts the flips that `max_bytes` of JSON have no room for.
    """
    asked: dict[tuple[str, str], int] = {}
    items: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    size = 0
    for flip in flipped:
        key = (flip.eval_set, flip.ours.item_id)
        new = [] if key in asked else [_item(flip)]
        entry = _flip(flip, asked.get(key, len(items)))
        size += sum(len(embed.to_json(part).encode()) for part in (*new, entry))
        if size > max_bytes:
            break
        asked.setdefault(key, len(items))
        items += new
        shown.append(entry)
    return {"items": items, "flips": shown, "left_out": len(flipped) - len(shown)}


def _item(flip: Flip) -> dict[str, Any]:
    theirs = flip.theirs
    return {
        "id": theirs.item_id,
        "set": flip.eval_set,
        "category": theirs.category,
        "critical": theirs.critical,
        "prompt": theirs.prompt,
        "expected": _expected(theirs.target),
        "output": theirs.output,
        "score": theirs.score,
        "cut": theirs.finish_reason is FinishReason.LENGTH,
    }


def _flip(flip: Flip, item: int) -> dict[str, Any]:
    removed, added = worddiff.changed(flip.theirs.output, flip.ours.output)
    return {
        "item": item,
        "variant": flip.variant,
        "lost": flip.lost,
        "output": flip.ours.output,
        "score": flip.ours.score,
        "cut": flip.ours.finish_reason is FinishReason.LENGTH,
        "removed": removed,
        "added": added,
    }


def _expected(target: Any) -> str:
    """One line for each part of it."""
    if isinstance(target, dict):
        return "\n".join(f"{name}: {_plain(value)}" for name, value in target.items())
    return _plain(target)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
