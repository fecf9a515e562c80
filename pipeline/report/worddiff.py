"""Where two texts differ: by words, and by characters in scripts that have no spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

_UNSPACED = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese, Japanese and Korean: one character is one token."""
_BLANK = r"[^\S\n]"
_TOKEN = re.compile(rf"(?:[{_UNSPACED}]|[^\W{_UNSPACED}]+|\S){_BLANK}*|\n|{_BLANK}+")
"""A word, a mark or a character with the blanks after it, which do not count; an end of line does."""
EXACT_PAIRS = 40_000
"""Pairs of tokens up to which every token is compared; beyond, difflib leaves out those that stand everywhere."""

Ranges = list[tuple[int, int]]
"""Beginning and end of each part, in UTF-16 units: how a browser counts the characters of a string."""


def changed(before: str, after: str) -> tuple[Ranges, Ranges]:
    """The parts of each text that the other one does not have at that place; neighbours are one part."""
    ours, theirs = _TOKEN.findall(before), _TOKEN.findall(after)
    head, tail = _common(ours, theirs)
    middle, other = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    exact = len(middle) * len(other) <= EXACT_PAIRS
    matcher = SequenceMatcher(None, list(map(str.rstrip, middle)), list(map(str.rstrip, other)), autojunk=not exact)
    edits = [edit for edit in matcher.get_opcodes() if edit[0] != "equal"]
    return (
        _ranges(ours, [(head + start, head + end) for _, start, end, _, _ in edits if start < end]),
        _ranges(theirs, [(head + start, head + end) for _, _, _, start, end in edits if start < end]),
    )


def _common(ours: Sequence[str], theirs: Sequence[str]) -> tuple[int, int]:
    """How many tokens at the beginning, and how many at the end of the rest, are the same."""
    shorter = min(len(ours), len(theirs))
    head = next((n for n in range(shorter) if ours[n] != theirs[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if ours[-1 - n] != theirs[-1 - n]), rest)
    return head, tail


def _ranges(tokens: Sequence[str], parts: Sequence[tuple[int, int]]) -> Ranges:
    """Without the blanks after the last token of a part."""
    ends = [0, *_ends(tokens)]
    return [(ends[start], ends[end] - _blanks(tokens[end - 1])) for start, end in parts]


def _ends(tokens: Sequence[str]) -> Iterator[int]:
    place = 0
    for token in tokens:
        place += len(token.encode("utf-16-le", "surrogatepass")) // 2
        yield place


def _blanks(token: str) -> int:
    return len(token) - len(token.rstrip()) if token.strip() else 0
