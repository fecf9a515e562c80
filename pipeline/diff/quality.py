"""The same variant's answers in two reports, paired by item id where both were asked alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.diff.records import QualityChange
from pipeline.diff.snapshot import Snapshot
from pipeline.metrics import intervals
from pipeline.quality_records import ItemResult
from pipeline.records import Interval
from pipeline.report.report_json import of_interval
from pipeline.report.report_records import Figure

SEED = 0
"""Of the bootstrap of graded scores: the same two reports give the same interval."""


@dataclass(frozen=True)
class Paired:
    """One eval set as one variant answered it in A and in B."""

    eval_set: str
    before: Sequence[ItemResult]
    """A's results of the items that both were asked alike."""
    after: Sequence[ItemResult]
    """B's, in the same order."""
    altered: int
    new: int
    gone: int

    @property
    def lost(self) -> list[str]:
        return [b.item_id for a, b in zip(self.before, self.after, strict=True) if a.passed and not b.passed]

    @property
    def won(self) -> list[str]:
        return [b.item_id for a, b in zip(self.before, self.after, strict=True) if b.passed and not a.passed]


def compare(a: Snapshot, b: Snapshot) -> list[QualityChange]:
    """Each variant of both: all its sets together, then each set."""
    weights = _weights(b.params)
    return [change for variant in b.variants if variant in a.variants for change in _variant(a, b, variant, weights)]


def _variant(a: Snapshot, b: Snapshot, variant: str, weights: Mapping[str, float]) -> Iterator[QualityChange]:
    before, after = a.items.get(variant, {}), b.items.get(variant, {})
    sets = [pair(name, before.get(name, ()), after.get(name, ())) for name in sorted({*before, *after})]
    if not sets:
        return
    found = {part.eval_set: intervals.difference(part.after, part.before, SEED) for part in sets if part.after}
    yield _change(variant, None, sets, _overall(found, weights))
    for part in sets:
        yield _change(variant, part.eval_set, [part], found.get(part.eval_set))


def pair(eval_set: str, before: Sequence[ItemResult], after: Sequence[ItemResult]) -> Paired:
    """Items with the same id, prompt and target are the same; another target would change scores by itself."""
    old = {item.item_id: item for item in before}
    both = [(old[item.item_id], item) for item in after if item.item_id in old]
    same = [(was, now) for was, now in both if _asked(was) == _asked(now)]
    return Paired(
        eval_set=eval_set,
        before=[was for was, _ in same],
        after=[now for _, now in same],
        altered=len(both) - len(same),
        new=len(after) - len(both),
        gone=len(before) - len(both),
    )


def _asked(item: ItemResult) -> tuple[str, Any]:
    return item.prompt_sha256, item.target


def _overall(found: Mapping[str, Interval], weights: Mapping[str, float]) -> Interval | None:
    """The mean of the sets that have items in common, weighted as the quality of a report is."""
    parts = [(interval, weights.get(name, 1.0)) for name, interval in found.items()]
    return intervals.weighted(parts, lowest=-1) if parts else None


def _weights(params: Mapping[str, Any]) -> dict[str, float]:
    sets = params.get("eval_sets")
    found = sets.items() if isinstance(sets, dict) else ()
    return {name: each.get("weight", 1.0) for name, each in found if isinstance(each, dict)}


def _change(variant: str, eval_set: str | None, sets: Sequence[Paired], delta: Interval | None) -> QualityChange:
    return QualityChange(
        variant=variant,
        eval_set=eval_set,
        same=sum(len(part.after) for part in sets),
        altered=sum(part.altered for part in sets),
        new=sum(part.new for part in sets),
        gone=sum(part.gone for part in sets),
        delta=of_interval(delta) if delta else Figure(value=None, reason="no item was asked alike in both"),
        lost=[_named(item, part, eval_set) for part in sets for item in part.lost],
        won=[_named(item, part, eval_set) for part in sets for item in part.won],
    )


def _named(item: str, part: Paired, eval_set: str | None) -> str:
    """Among several sets an item is named with its own: ids are unique in one set only."""
    return item if eval_set else f"{part.eval_set}/{item}"
