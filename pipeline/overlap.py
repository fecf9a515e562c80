"""Text that stands in two places: eval items that calibration has seen too would flatter a variant.

Text is compared by its words, without case and punctuation. Chinese and Japanese are written without spaces between
words, so there each character is a unit, which counts half a word; so it is for Korean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pipeline import calibration, eval_sets
from pipeline.scorers.words import CJK, tokens

WORDS = 8
"""Length of a run of words that two texts do not share by chance; in characters it is twice that."""

Run = tuple[str, ...]

_CHARACTER = re.compile(f"[{CJK}]")
_SPACE_BETWEEN_CHARACTERS = re.compile(f"(?<=[{CJK}]) (?=[{CJK}])")


def runs(text: str, words: int = WORDS) -> Iterator[Run]:
    """Every run of consecutive words or characters that is as long as `words` words."""
    units = tokens(text)
    halves = [1 if _CHARACTER.match(unit) else 2 for unit in units]
    end, length = 0, 0
    for start in range(len(units)):
        while length < 2 * words and end < len(units):
            length += halves[end]
            end += 1
        if length < 2 * words:
            return
        yield tuple(units[start:end])
        length -= halves[start]


def shown(run: Run) -> str:
    """A run as text: a space between words, none between characters."""
    return _SPACE_BETWEEN_CHARACTERS.sub("", " ".join(run))


def calibration_runs(calibration_set: str) -> frozenset[Run]:
    """Every run in the texts of a calibration set."""
    return frozenset(run for text in calibration.texts(calibration_set) for run in runs(text))


def first_shared(text: str, seen: frozenset[Run]) -> str | None:
    """The first run of a text that is among those seen."""
    return next((shown(run) for run in runs(text) if run in seen), None)


def leaks(calibration_set: str, names: Iterable[str]) -> Iterator[str]:
    """Eval items that share a run with a text of the calibration set."""
    seen = calibration_runs(calibration_set)
    for name in names:
        for item_id, text in eval_sets.texts(name).items():
            shared = first_shared(text, seen)
            if shared:
                yield (
                    f"eval set {name}, item {item_id}: {shared!r} ({WORDS} words in a row, or {2 * WORDS} "
                    f"characters of Chinese, Japanese or Korean) stands in calibration set {calibration_set} "
                    "too; change one of them"
                )
