"""Long lists of errors for people: the same mistake in 200 items is told a few times, then counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

SHOWN = 3
"""Errors of one kind that are told in full."""
_PARTICULARS = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")
"""What differs between two errors of one kind: the names and values that they quote, lines and counts."""


def shortened(problems: Sequence[str]) -> Iterator[str]:
    """The first errors of each kind in their order, the last of them with the number of those that are left out."""
    counts = Counter(map(_kind, problems))
    told: Counter[str] = Counter()
    for problem in problems:
        kind = _kind(problem)
        told[kind] += 1
        left = counts[kind] - SHOWN
        # A note that one more is left out is as long as that one.
        if told[kind] <= SHOWN or left == 1:
            yield f"{problem} (and {left} more like this)" if told[kind] == SHOWN and left > 1 else problem


def _kind(problem: str) -> str:
    return _PARTICULARS.sub("…", problem)
