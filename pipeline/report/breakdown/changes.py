"""What changed against the baseline on the same items: with which certainty, and what the answers looked like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.paired_tests import Comparison
from pipeline.quality_records import FinishReason, Flaw
from pipeline.records import Status, known
from pipeline.report import cells
from pipeline.report.breakdown.words import counted
from pipeline.report.cells import Cell

DELTA = BY_NAME["quality_delta"]
SIGNIFICANT = 0.05
NAMED_ITEMS = 5


@dataclass(frozen=True)
class Line:
    """One variant on one category, or on a whole set."""

    variant: str
    eval_set: str
    category: str | None
    """None: the whole set."""
    items: int
    lost: int
    won: int
    delta: Cell
    p: Cell
    """After Holm's correction over all categories, or over all sets."""
    clear: bool
    """The corrected p-value is below `SIGNIFICANT`."""
    detectable: Cell


@dataclass(frozen=True)
class Changes:
    variant: str
    lines: tuple[Line, ...]
    """Whole sets first."""
    words: str
    """What to make of them, or why nothing was compared."""


def of(variants: Sequence[VariantEvidence]) -> list[Changes]:
    """Each variant but the baseline."""
    return [_changes(evidence) for evidence in variants if not evidence.is_baseline]


def _changes(evidence: VariantEvidence) -> Changes:
    found = evidence.comparisons
    if isinstance(found, str):
        return Changes(evidence.variant, (), f"was not compared: {found}")
    return Changes(evidence.variant, tuple(_line(evidence.variant, each) for each in found), _words(evidence, found))


def _line(variant: str, found: Comparison) -> Line:
    drop = found.detectable_drop
    return Line(
        variant=variant,
        eval_set=found.eval_set,
        category=found.category,
        items=found.n,
        lost=found.lost,
        won=found.won,
        delta=cells.reading(DELTA, known(found.delta.mean), found.delta.ci_low, found.delta.ci_high),
        p=Cell(_p(found.p_holm), reason=f"{found.test}; {_p(found.p)} before Holm's correction", value=found.p_holm),
        clear=found.p_holm < SIGNIFICANT,
        detectable=cells.absent(drop.reason or "")
        if drop.value is None
        else Cell(f"{100 * drop.value:.1f} pp", value=drop.value),
    )


def _words(evidence: VariantEvidence, found: Sequence[Comparison]) -> str:
    parts = [_verdict(found), *_noise(evidence)]
    return "; ".join(parts)


def _verdict(found: Sequence[Comparison]) -> str:
    clear = [_place(each) for each in found if each.p_holm < SIGNIFICANT and each.delta.mean < 0]
    better = [_place(each) for each in found if each.p_holm < SIGNIFICANT and each.delta.mean > 0]
    parts = [
        *([f"clearly worse on {', '.join(clear)}"] if clear else []),
        *([f"clearly better on {', '.join(better)}"] if better else []),
    ]
    if parts:
        return " and ".join(parts)
    drops = [each.detectable_drop.value for each in found if each.category is None and each.detectable_drop.value]
    unseen = f", but a drop of less than {100 * min(drops):.1f} points could hide in so few items" if drops else ""
    return f"no change that chance could not explain{unseen}"


def _place(found: Comparison) -> str:
    return f"{found.eval_set} as a whole" if found.category is None else f"{found.category} ({found.eval_set})"


def _noise(evidence: VariantEvidence) -> Iterator[str]:
    floor = evidence.noise_floor
    if isinstance(floor, str):
        return
    seen = f"of {floor.items} answers given twice, in a batch and alone, {floor.differing} differed"
    moved = f"{counted(floor.flips, 'verdict', 'verdicts')} with them" if floor.flips else "no verdict with them"
    yield f"{seen} and {moved}" if floor.differing else seen.replace(f"{floor.differing} differed", "none differed")
    delta = evidence.delta_interval
    if floor.delta and not isinstance(delta, str) and floor.holds(delta.mean):
        yield f"the batch alone may move the score by {100 * floor.delta:.1f} points, as much as was lost or won"


@dataclass(frozen=True)
class Answers:
    """What the answers of one variant to one set looked like, whatever was asked."""

    variant: str
    eval_set: str
    items: int
    cut: int
    """Ended by the token limit."""
    flaws: tuple[int, ...]
    """How many have each `Flaw`, in its order."""
    over_context: Cell
    """Items that were not asked, named when it is opened."""
    reason: str = ""
    """Why there are none."""


def answers(variants: Sequence[VariantEvidence]) -> list[Answers]:
    """Every variant on every eval set, sets first."""
    names = dict.fromkeys(scored.name for evidence in variants for scored in evidence.quality)
    return [_answers(evidence, name) for name in names for evidence in variants]


def _answers(evidence: VariantEvidence, eval_set: str) -> Answers:
    record = next(scored.record for scored in evidence.quality if scored.name == eval_set)
    if record.status is not Status.OK or record.overall is None:
        reason = record.reason or "it was not scored"
        return Answers(evidence.variant, eval_set, 0, 0, (0,) * len(Flaw), Cell("0"), reason)
    named = ", ".join(record.over_context[:NAMED_ITEMS])
    more = ", …" if len(record.over_context) > NAMED_ITEMS else ""
    counts = Counter(record.flaws)
    return Answers(
        variant=evidence.variant,
        eval_set=eval_set,
        items=record.overall.n,
        cut=record.finish_reasons.get(FinishReason.LENGTH, 0),
        flaws=tuple(counts[flaw] for flaw in Flaw),
        over_context=Cell(str(len(record.over_context)), reason=named + more),
    )


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"
