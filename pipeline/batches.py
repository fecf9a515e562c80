"""Which items are asked together: of one answer limit, of similar length, with what they all begin with read once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pipeline.quality_records import ItemPrompt

LONG_PREFIX = 128
"""Tokens that items of one document must have in common to be asked apart from the others."""


@dataclass(frozen=True)
class Batch:
    items: tuple[ItemPrompt, ...]
    shared: tuple[int, ...]
    """Tokens that the prompt of each item begins with, shorter than each prompt."""
    alone: bool = False
    """One item that is asked a second time, without others beside it."""

    @property
    def chooses(self) -> bool:
        """Whether the items have choices; all have, or none."""
        return bool(self.items[0].choices)


def plan(items: Sequence[ItemPrompt], size: int) -> list[Batch]:
    """Every item in one batch of at most `size`, in an order that depends on the items alone.

    Batches of one `shared` follow each other, so an engine that keeps the last one computes each once.
    """
    batches = []
    for group in _groups(items):
        shared = common_prefix([item.token_ids for item in group])
        batches += [Batch(tuple(part), shared) for part in _split(group, size)]
    return batches


def alone(batches: Sequence[Batch], wanted: int) -> list[Batch]:
    """About `wanted` items, evenly spread over all batches of more than one item, each as a batch of its own."""
    crowded = [(item, batch.shared) for batch in batches if len(batch.items) > 1 for item in batch.items]
    if wanted <= 0 or not crowded:
        return []
    count = min(wanted, len(crowded))
    places = [(2 * number + 1) * len(crowded) // (2 * count) for number in range(count)]
    return [Batch((crowded[place][0],), crowded[place][1], alone=True) for place in places]


def common_prefix(prompts: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The tokens that all prompts begin with, but at least one token shorter than the shortest."""
    if len(prompts) < 2:
        return ()
    shortest = min(map(len, prompts))
    columns = zip(*(prompt[: shortest - 1] for prompt in prompts), strict=True)
    return tuple(column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns))


def _groups(items: Sequence[ItemPrompt]) -> Iterator[list[ItemPrompt]]:
    """Items of one long document each on their own, then all others; items with choices apart from those without."""
    ordered = sorted(items, key=lambda item: item.item_id)
    for choosing in (False, True):
        kind = [item for item in ordered if bool(item.choices) is choosing]
        clusters: dict[str, list[ItemPrompt]] = defaultdict(list)
        for item in kind:
            if item.cluster is not None:
                clusters[item.cluster].append(item)
        of_all = len(common_prefix([item.token_ids for item in kind]))
        apart = [
            group
            for _, group in sorted(clusters.items())
            if len(common_prefix([item.token_ids for item in group])) - of_all >= LONG_PREFIX
        ]
        yield from apart
        taken = {item.item_id for group in apart for item in group}
        rest = [item for item in kind if item.item_id not in taken]
        if rest:
            yield rest


def _split(group: Sequence[ItemPrompt], size: int) -> Iterator[list[ItemPrompt]]:
    batch: list[ItemPrompt] = []
    for item in sorted(group, key=lambda item: (item.max_new_tokens, len(item.token_ids), item.item_id)):
        if batch and (len(batch) == size or batch[0].max_new_tokens != item.max_new_tokens):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
