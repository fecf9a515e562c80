"""What is wrong with an eval set, and what is doubtful: `quantgate eval-set check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import calibration, checkpoint, overlap, store
from pipeline.errors import UserError
from pipeline.eval_sets import balance, duplicates
from pipeline.eval_sets.card import Card, Format, read_card
from pipeline.eval_sets.items import Item, document_paths, problems, read_items
from pipeline.eval_sets.rendering import texts, tokenize
from pipeline.tokenizer import Tokenizer

DISCORDANT = 0.1
"""Share of items whose pass or fail differs between variant and baseline, assumed before anything is measured."""
TO_FILL_IN = "TODO"
"""What a text of the card begins with while its author has not written it."""
NEAR_SHOWN = 10


@dataclass(frozen=True)
class Findings:
    errors: list[str]
    """The set cannot be used like this, or its scores would mislead."""
    warnings: list[str]
    notes: list[str]
    """What could not be checked yet, and what the set holds."""


def check(name: str, margin: float | None = None, calibration_set: str | None = None) -> Findings:
    """Everything that can be said of an eval set before a model answers it.

    Args:
        margin: the loss of quality that the set is to rule out, 0 to 1; by default the card's.
        calibration_set: the one to look for leaks into; by default all.
    """
    calibrations = [calibration_set] if calibration_set else _calibration_sets()
    unreadable = {each: found for each in calibrations if (found := _calibration_problems(each, calibration_set))}
    faulty = [problem for found in unreadable.values() for problem in found]
    own = problems(name)
    if own:
        return Findings([*own, *faulty], [], ["mend these first: the other checks need an eval set that can be read"])
    card, items = read_card(name), read_items(name)
    lengths, notes = _lengths(name)
    if unreadable:
        notes.append(f"leaks into {', '.join(unreadable)} were not looked for, since it cannot be read")
    return Findings(
        errors=[
            *faulty,
            *duplicates.exact(card, items),
            *(leak for each in calibrations if each not in unreadable for leak in overlap.leaks(each, [name])),
        ],
        warnings=[
            *_unwritten(card),
            *_unused(name, card, items),
            *_ids(items),
            *_near(card, items),
            *balance.problems(items),
            *_trailing_space(name, card),
            *lengths,
            *_size(items, margin or card.margin),
        ],
        notes=[*notes, _summary(name, card, items)],
    )


def _calibration_sets() -> list[str]:
    return sorted(path.name for path in store.CALIBRATION.glob("*") if path.is_dir())


def _calibration_problems(name: str, asked_for: str | None) -> list[str]:
    """What is wrong with a calibration set; one that is not there is a wrong option where it was asked for by name."""
    place = "--calibration: " if name == asked_for and not calibration.folder(name).is_dir() else ""
    return [f"{place}{problem}" for problem in calibration.set_problems(name)]


def _summary(name: str, card: Card, items: Sequence[Item]) -> str:
    clusters = {item.cluster for item in items if item.cluster is not None}
    counts = {
        "items": len(items),
        "categories": len(card.categories),
        "clusters": len(clusters),
        "items in clusters": sum(item.cluster is not None for item in items),
        "critical": sum(item.critical for item in items),
    }
    return f"{name} {card.version}: {', '.join(f'{what} {count}' for what, count in counts.items() if count)}"


def _unwritten(card: Card) -> Iterator[str]:
    for field in ("language", "licence", "provenance", "description"):
        if getattr(card, field).strip().startswith(TO_FILL_IN):
            yield f"card.yaml: {field} is still to be written"
    for category, settings in card.categories.items():
        if settings.description.strip().startswith(TO_FILL_IN):
            yield f"card.yaml: categories.{category}.description is still to be written"


def _unused(name: str, card: Card, items: Sequence[Item]) -> Iterator[str]:
    used = {item.category for item in items}
    yield from (f"card.yaml: no item is of category {category}" for category in card.categories if category not in used)
    documents = {item.document for item in items}
    yield from (f"{path}: no item asks about it" for key, path in document_paths(name).items() if key not in documents)


def _ids(items: Sequence[Item]) -> Iterator[str]:
    other = [item.id for item in items if item.id.rpartition("-")[0] != item.category or not item.id[-1:].isdigit()]
    if other:
        yield f"ids are <category>-<number> by custom, such as {items[0].category}-001; not so: {_listed(other)}"


def _near(card: Card, items: Sequence[Item]) -> Iterator[str]:
    pairs = duplicates.near(card, items)
    for pair in pairs[:NEAR_SHOWN]:
        yield (
            f"items {pair.first} and {pair.second} share {pair.similarity:.0%} of their wording; reword one, or give "
            "both the same group"
        )
    if len(pairs) > NEAR_SHOWN:
        yield f"further pairs of items that share at least {duplicates.NEAR:.0%} of it: {len(pairs) - NEAR_SHOWN}"


def _trailing_space(name: str, card: Card) -> Iterator[str]:
    if card.format is Format.TEXT:
        ending = [item_id for item_id, text in texts(name).items() if text != text.rstrip()]
        if ending:
            yield f"prompts end in white space, after which a model finds a word harder to begin: {_listed(ending)}"


def _lengths(name: str) -> tuple[list[str], list[str]]:
    """Warnings about items over the base model's context, and a note where there is no base model yet."""
    if not checkpoint.is_complete(store.BASE):
        return [], ["prompt lengths are checked once the base model is there (`dvc repro base`)"]
    try:
        context = checkpoint.context_length(store.BASE)
        prompts = tokenize(name, Tokenizer(store.BASE), context)
    except UserError as error:
        return list(error.problems), []
    over = [f"{prompt.item_id} ({len(prompt.token_ids)} tokens)" for prompt in prompts if prompt.over_context]
    longest = max(len(prompt.token_ids) for prompt in prompts)
    note = f"the longest prompt has {longest} tokens of the base model's context of {context}"
    if not over:
        return [], [note]
    return [f"over the base model's context of {context} with their answer, so not asked: {_listed(over)}"], [note]


def _size(items: Sequence[Item], margin: float) -> Iterator[str]:
    from pipeline.metrics.power import items_needed

    needed, have = items_needed(margin, DISCORDANT), len(items)
    if have < needed:
        clustered = ", and more where they share documents or groups" if any(item.cluster for item in items) else ""
        yield (
            f"{have} {'item' if have == 1 else 'items'}: to rule out a loss of {margin:.1%} needs about "
            f"{needed}{clustered}, if {DISCORDANT:.0%} of the items change between pass and fail; write more, or ask "
            "for a wider margin"
        )


def _listed(names: Iterable[Any], most: int = 5) -> str:
    every = list(map(str, names))
    rest = len(every) - most
    return ", ".join(every[:most]) + (f" and {rest} more" if rest > 0 else "")
