"""What is wrong with an answer whatever was asked. It is counted beside the score and changes no score.

Meant to be silent on good answers, short ones and code included, rather than to find every bad one.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence

from pipeline.quality_records import Flaw
from pipeline.scorers.words import tokens

REFUSAL_WITHIN = 200
"""Characters from the start: a refusal comes first, what comes later is quoted or advice."""
REPEATS = 4
LOOP_WORDS = 20
LONGEST_WORD_LOOP = 40
LOOP_CHARACTERS = 24
LONGEST_CHARACTER_LOOP = 2

_DECLINED = (
    r"(?:(?:help|assist|answer|comply|fulfil|fulfill)\b(?!\ but\b)"
    r"|(?:do|discuss|provide|complete|generate|create|write)\ (?:that|this|such|any)\b)"
)
_REFUSALS = re.compile(
    rf"""
    \bI\ (?:just\ |simply\ )?
    (?:can't|cannot|can\ not|won't|will\ not|must\ decline\ to|am\ (?:unable|not\ able)\ to)\ {_DECLINED}
    |\bI'm\ (?:unable|not\ able)\ to\ {_DECLINED}
    |\bas\ an?\ (?:AI|artificial\ intelligence|(?:large\ )?language\ model)\b
    |我(?:无法|不能|没办法|没有办法)(?:回答|协助|帮助|帮到|满足[您你]的(?:请求|要求)|完成[这该此]|讨论[这该此])
    |我(?:无法|不能)(?:为[您你])?提供(?:[这该此]|任何|相关|帮助|协助)
    |作为(?:一个|一名|一款)?(?:AI|人工智能|大?语言模型|智能助手)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FENCE = re.compile(r"```\w*\n(.*)\n```", re.DOTALL)
_NOT_TEXT = frozenset({"Cc", "Cn", "Co", "Cs"})
_UNSEEN = frozenset({"Cf", "Zl", "Zp", "Zs"})


def detect(output: str) -> Flaw | None:
    """The first flaw that holds: empty, degenerate, a refusal; None for an answer that may be good."""
    seen = "".join(character for character in output if not _is_unseen(character))
    if not seen:
        return Flaw.EMPTY
    if _is_garbage(seen) or (not _is_json(output) and (_loops_in_words(tokens(output)) or _loops_in_characters(seen))):
        return Flaw.DEGENERATE
    if _REFUSALS.search(output.strip()[:REFUSAL_WITHIN].replace("’", "'")):
        return Flaw.REFUSAL
    return None


def _is_unseen(character: str) -> bool:
    return character in "\n\r\t" or unicodedata.category(character) in _UNSEEN


def _is_garbage(text: str) -> bool:
    """At least half of it is replacement characters, control characters, or not assigned to anything."""
    bad = sum(character == "\ufffd" or unicodedata.category(character) in _NOT_TEXT for character in text)
    return 2 * bad >= len(text)


def _is_json(output: str) -> bool:
    """An object or array from its beginning to its end: a row of zeros in it is no loop."""
    fenced = _FENCE.fullmatch(output.strip())
    try:
        return isinstance(json.loads(fenced[1] if fenced else output), dict | list)
    except (ValueError, RecursionError):
        return False


def _loops_in_words(words: Sequence[str]) -> bool:
    """It ends in a loop of words, or is half of one: the same 1 to 40 in a row, at least 4 times and 20 words."""
    return any(
        stretch >= max(LOOP_WORDS, REPEATS * size) and (end == len(words) or 2 * stretch >= len(words))
        for size, stretch, end in _repetitions(words, LONGEST_WORD_LOOP)
    )


def _loops_in_characters(text: str) -> bool:
    """Half of it or more is the same 1 or 2 characters in a row; a rule under a heading is less."""
    return any(
        stretch >= LOOP_CHARACTERS and 2 * stretch >= len(text)
        for _, stretch, _ in _repetitions(text, LONGEST_CHARACTER_LOOP)
    )


def _repetitions(symbols: Sequence[str], longest: int) -> Iterator[tuple[int, int, int]]:
    """Stretches that repeat their first `size` symbols over and over, as (size, length of the stretch, its end)."""
    for size in range(1, min(longest, len(symbols) // 2) + 1):
        run = 0
        for place in range(size, len(symbols)):
            run = run + 1 if symbols[place] == symbols[place - size] else 0
            if run:
                yield size, run + size, place + 1
