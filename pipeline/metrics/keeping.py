"""Which parts of a variant to keep in 16 bits, so that so many extra bytes win back the most."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.sensitivity_records import Group


def choose(groups: Sequence[Group], budget_bytes: int) -> list[Group]:
    """Take groups by KLD per extra byte, largest first, while they fit; in the order that they were given.

    The greedy rule for the knapsack problem (Dantzig 1957, Operations Research 5:266). It takes the KLD of groups as
    additive, which holds for small ones (Cai et al. 2020, "ZeroQ"). A group that does not fit leaves room
    to those after it; one that loses nothing is left alone.
    """
    left = budget_bytes
    taken = set()
    for place in sorted(range(len(groups)), key=lambda place: -_worth(groups[place])):
        group = groups[place]
        if group.kld > 0 and group.extra_bytes <= left:
            taken.add(place)
            left -= group.extra_bytes
    return [group for place, group in enumerate(groups) if place in taken]


def _worth(group: Group) -> float:
    """Nats per byte; a group that costs nothing comes first."""
    return group.kld / group.extra_bytes if group.extra_bytes > 0 else math.inf
