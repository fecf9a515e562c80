"""Answers that can be guessed: one label far more often right than chance, or one place in the list of choices."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.eval_sets.items import Item

RATIO = 1.5
"""How many times as often as by chance an option must be right to be worth a warning."""
RARE = 0.01
"""Such a surplus must be this improbable under chance, over all options tried."""

_ORDINALS = ("first", "second", "third", "fourth", "fifth")


@dataclass(frozen=True)
class Skew:
    option: Any
    right: int
    """How often it is the answer."""
    offered: int
    """How often it is among the options."""
    expected: float
    """How often it would be the answer by chance: the sum of 1 / number of options where it is offered."""


def problems(items: Sequence[Item]) -> Iterator[str]:
    """Per category with choices: labels that are too often right, and places of the right choice in the list."""
    for category, asked in _with_choices(items).items():
        labels = [(choices, answer) for choices, answer in asked]
        for skew in skews(labels):
            yield (
                f"category {category}: {skew.option!r} is the answer of {skew.right} of the {skew.offered} items that "
                f"offer it, {skew.expected:.0f} by chance; a model that always says so would look good. Balance the "
                "answers"
            )
        if len({tuple(choices) for choices, _ in asked}) == 1:
            continue  # The list is the same everywhere, so that a place is a label.
        places = [(range(len(choices)), choices.index(answer)) for choices, answer in asked]
        for skew in skews(places):
            place = _ORDINALS[skew.option] if skew.option < len(_ORDINALS) else f"number {skew.option + 1}"
            yield (
                f"category {category}: the {place} choice is the answer of {skew.right} of {skew.offered} items, "
                f"{skew.expected:.0f} by chance; a model that always picks it would look good. Shuffle the choices"
            )


def skews(asked: Iterable[tuple[Sequence[Hashable], Hashable]]) -> list[Skew]:
    """Options that are right far more often than by chance, from (options, right option) of each item.

    The chance of a surplus is the upper tail of the binomial distribution with the mean chance of the option, and is
    held against `RARE` / number of options (Bonferroni).
    """
    offered: dict[Hashable, list[float]] = defaultdict(list)
    right: dict[Hashable, int] = defaultdict(int)
    for options, answer in asked:
        for option in options:
            offered[option].append(1 / len(options))
        right[answer] += 1
    found = []
    for option, chances in offered.items():
        skew = Skew(option, right[option], len(chances), math.fsum(chances))
        rare = _upper_tail(skew.right, skew.offered, skew.expected / skew.offered) < RARE / len(offered)
        if rare and skew.right >= RATIO * skew.expected:
            found.append(skew)
    return sorted(found, key=lambda skew: -skew.right)


def _upper_tail(successes: int, trials: int, chance: float) -> float:
    """P(X >= successes), X binomial."""
    return math.fsum(
        math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(successes, trials + 1)
    )


def _with_choices(items: Sequence[Item]) -> dict[str, list[tuple[list[str], str]]]:
    found: dict[str, list[tuple[list[str], str]]] = defaultdict(list)
    for item in items:
        if isinstance(item.target, dict) and {"choices", "answer"} <= item.target.keys():
            found[item.category].append((item.target["choices"], item.target["answer"]))
    return found
