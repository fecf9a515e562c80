"""What the smoke gate reads and asks: short texts cut from the fidelity text, and prompts of the eval items."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

from pipeline import fidelity_text, store
from pipeline.artifact_records import Manifest
from pipeline.quality_records import ItemPrompt
from pipeline.smoke_records import SmokeTexts
from pipeline.tokenizer import Tokenizer


def make(
    text: str, count: int, tokens: int, prompts: int, items: Sequence[ItemPrompt], tokenizer: Tokenizer, base: Manifest
) -> SmokeTexts:
    """The first `count` windows of `tokens` tokens of a text file, and the token ids of `prompts` items.

    Raises:
        UserError: see `fidelity_text.tokenize`.
    """
    windows = fidelity_text.tokenize(text, count * tokens, tokens, tokenizer, base).windows[:count]
    asked = [item.token_ids for item in pick(items, prompts)]
    return SmokeTexts(text=text, windows=windows, prompts=asked, sha256=store.sha256_json([windows, asked]))


def pick(items: Sequence[ItemPrompt], count: int) -> list[ItemPrompt]:
    """At most `count` items, the shortest of each category in turn: what is asked differs, and is answered soon.

    Items that are answered freely go before those with choices, whose prompts ask for a letter.
    """
    fitting = [item for item in items if not item.over_context]
    free = [item for item in fitting if not item.choices] or fitting
    by_category: dict[str, list[ItemPrompt]] = {}
    for item in sorted(free, key=lambda item: len(item.token_ids)):
        by_category.setdefault(item.category, []).append(item)
    in_turn = chain.from_iterable(zip_longest(*by_category.values()))
    return [item for item in in_turn if item is not None][:count]
