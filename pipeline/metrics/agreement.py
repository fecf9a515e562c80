"""How far two who gave verdicts on the same answers agree."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.records import Reading, known, missing

_NONE = "no labelled answers"


def share(ours: Sequence[bool], theirs: Sequence[bool]) -> Reading:
    """Share of answers on which both say the same."""
    if not ours:
        return missing(_NONE)
    return known(sum(mine == other for mine, other in zip(ours, theirs, strict=True)) / len(ours))


def kappa(ours: Sequence[bool], theirs: Sequence[bool]) -> Reading:
    """Cohen's kappa, (p - e) / (1 - e): agreement p beyond the agreement e that chance alone would give.

    e is the chance that both say yes or both say no if each keeps its own share of yes, independently (Cohen 1960,
    Educational and Psychological Measurement 20:37). 1 is full agreement, 0 no more than chance.
    """
    observed = share(ours, theirs)
    if observed.value is None:
        return observed
    mine, others = sum(ours) / len(ours), sum(theirs) / len(theirs)
    chance = mine * others + (1 - mine) * (1 - others)
    if math.isclose(chance, 1):
        return missing("both give one and the same verdict on all labelled answers: label good and bad ones")
    return known((observed.value - chance) / (1 - chance))
