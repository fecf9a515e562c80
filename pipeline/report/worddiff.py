"""Where two texts differ: by words, and by characters in scripts that have no spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

_UNSPACED = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese, Japanese and Korean: one character is one token."""
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|\s+|.", re.DOTALL)
EXACT_TOKENS = 2_000
"""Of both texts together. The exact comparison takes time with their product: longer ones take difflib's shortcut."""

Ranges = list[tuple[int, int]]
"""Beginning and end of each part, in UTF-16 units: how a browser counts the characters of a string."""


def changed(before: str, after: str) -> tuple[Ranges, Ranges]:
    """The parts of each text that the other one does not have at that place; words parted by blanks are joined."""
    ours, theirs = _TOKEN.findall(before), _TOKEN.findall(after)
    matcher = SequenceMatcher(None, ours, theirs, autojunk=len(ours) + len(theirs) > EXACT_TOKENS)
    edits = [(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]
    return (
        _ranges(ours, [(start, end) for start, end, _, _ in edits]),
        _ranges(theirs, [(start, end) for _, _, start, end in edits]),
    )


def _ranges(tokens: Sequence[str], parts: Sequence[tuple[int, int]]) -> Ranges:
    ends = [0, *_ends(tokens)]
    joined: list[tuple[int, int]] = []
    for start, end in parts:
        if start == end:
            continue
        if joined and not "".join(tokens[joined[-1][1] : start]).strip():
            start = joined.pop()[0]
        joined.append((start, end))
    return [(ends[start], ends[end]) for start, end in joined]


def _ends(tokens: Sequence[str]) -> Iterator[int]:
    place = 0
    for token in tokens:
        place += len(token.encode("utf-16-le", "surrogatepass")) // 2
        yield place
