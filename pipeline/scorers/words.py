"""Words and phrases of texts, in scripts with and without spaces between words."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Han, kana and Hangul, for use inside a character class: words of these have no boundaries to look for."""
WORD_CHARACTER = rf"[^\W{CJK}]"
"""Pattern of a character of words that have boundaries."""

_CJK = re.compile(f"[{CJK}]")
_TOKEN = re.compile(rf"[{CJK}]|{WORD_CHARACTER}+")
_SPACE_BESIDE_CJK = re.compile(rf"(?<=[{CJK}]) | (?=[{CJK}])")


def tokens(text: str) -> list[str]:
    """Case-folded words, without punctuation; each Han, kana or Hangul character is one of its own."""
    return [token.casefold() for token in _TOKEN.findall(text)]


def plain(text: str) -> str:
    """The text without regard to case and white space: a run of it is one space, and none beside a CJK character."""
    return _closed(text).casefold()


@lru_cache(maxsize=4096)
def phrase(text: str) -> re.Pattern[str]:
    """The phrase as whole words, without regard to case; any white space fits any other.

    Where it begins or ends with a CJK character there is no boundary to look for, and white space beside one may be
    there or not.
    """
    closed = _closed(text)
    body = re.escape(closed[0])
    for before, character in pairwise(closed):
        body += r"\s*" if _CJK.match(before) or _CJK.match(character) else ""
        body += r"\s+" if character == " " else re.escape(character)
    start = "" if _CJK.match(closed[0]) else f"(?<!{WORD_CHARACTER})"
    end = "" if _CJK.match(closed[-1]) else f"(?!{WORD_CHARACTER})"
    return re.compile(start + body + end, re.IGNORECASE)


def _closed(text: str) -> str:
    return _SPACE_BESIDE_CJK.sub("", " ".join(text.split()))
