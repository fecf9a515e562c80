"""Prompts, and choices behind them, packed into one row of tokens: what each token sees is in the attention mask.

Nothing is padded, and no keys and values are copied per choice. Keys stand in the order of the row, positions count
from each prompt's own beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Tokens = Sequence[int]

_NO_CHOICE = -1


class Asked(NamedTuple):
    """A token whose probability is wanted: it follows the token at `place` in the row."""

    place: int
    token: int


@dataclass
class Pack:
    """A row of tokens that continue `start` tokens which every prompt in it begins with."""

    start: int
    token_ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    prompts: list[range] = field(default_factory=list)
    """Places of each prompt's tokens."""
    asked: list[list[list[Asked]]] = field(default_factory=list)
    """Per prompt and choice: the choice's tokens."""
    _owners: list[tuple[int, int]] = field(default_factory=list)
    """Per token: its prompt, and its choice where it belongs to one."""

    def add(self, prompt: Tokens, choices: Iterable[Tokens]) -> None:
        """Append what follows the start in a prompt, and its choices, whose last tokens need not be read."""
        number, following = len(self.prompts), self.start + len(prompt)
        places = self._extend(prompt, self.start, (number, _NO_CHOICE))
        self.prompts.append(places)
        self.asked.append([])
        for which, choice in enumerate(choices):
            before = [places[-1], *self._extend(choice[:-1], following, (number, which))]
            self.asked[number].append([Asked(place, token) for place, token in zip(before, choice, strict=True)])

    def mask(self, dtype: Any, device: str) -> Any | None:
        """What is added to the attention scores, [1, 1, tokens, start + tokens]: 0 where a token sees, else the lowest.

        A token sees the start, its own prompt and, where it belongs to a choice, that choice; none after itself. One
        prompt without choices needs no mask: None.
        """
        import torch

        if len(set(self._owners)) == 1:
            return None
        prompts, choices = torch.tensor(self._owners, device=device).T
        sees = (prompts[:, None] == prompts) & ((choices == _NO_CHOICE) | (choices[:, None] == choices))
        sees = torch.cat([sees.new_ones(len(sees), self.start), sees.tril()], dim=1)
        return torch.zeros(sees.shape, dtype=dtype, device=device).masked_fill(~sees, torch.finfo(dtype).min)[
            None, None
        ]

    def _extend(self, tokens: Tokens, position: int, owner: tuple[int, int]) -> range:
        """Append tokens of one owner that count from `position`; their places."""
        places = range(len(self.token_ids), len(self.token_ids) + len(tokens))
        self.token_ids += tokens
        self.positions += range(position, position + len(tokens))
        self._owners += [owner] * len(tokens)
        return places


def packs(prompts: Iterable[tuple[Tokens, Sequence[Tokens]]], start: int, limit: int) -> Iterator[Pack]:
    """Prompts (their tokens after the start) and choices, in order, in rows of at most `limit` tokens or one prompt."""
    pack = Pack(start)
    for prompt, choices in prompts:
        size = len(prompt) + sum(len(choice) - 1 for choice in choices)
        if pack.prompts and len(pack.token_ids) + size > limit:
            yield pack
            pack = Pack(start)
        pack.add(prompt, choices)
    if pack.prompts:
        yield pack
