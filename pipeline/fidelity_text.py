"""The fidelity text → windows of token ids, once, so that every variant reads the same."""

from __future__ import annotations

from pathlib import Path

from pipeline import store
from pipeline.artifact_records import Manifest
from pipeline.errors import UserError
from pipeline.quality_records import FidelityText
from pipeline.tokenizer import Tokenizer


def tokenize(text: str, tokens: int, window_tokens: int, tokenizer: Tokenizer, base: Manifest) -> FidelityText:
    """The first `tokens` tokens of a text file in windows of `window_tokens`; the last one may be shorter.

    A window begins with what the tokenizer puts before a text, BOS for most that have one, and otherwise with a token
    of the text. Nothing before a window is known to the model that reads it.

    Raises:
        UserError: the file cannot be read or is too short, or a window does not fit into the model's context.
    """
    if window_tokens > base.context_length:
        raise UserError(
            f"fidelity.window_tokens: {window_tokens} exceeds the model's context of {base.context_length}; lower it"
        )
    start = tokenizer.opening("a")[: -len(tokenizer.rendered("a"))]
    ids = tokenizer.rendered(_read(text))
    if start and ids[: len(start)] == start:
        ids = ids[len(start) :]
    if len(ids) < tokens:
        raise UserError(
            f"fidelity: tokens is {tokens}, but {text} has only {len(ids)} tokens; lengthen the text or lower tokens"
        )
    windows = _windows(ids[:tokens], start, window_tokens)
    return FidelityText(
        tokenizer_sha256=base.tokenizer_sha256,
        text=text,
        tokens=tokens,
        window_tokens=window_tokens,
        windows=windows,
        text_sha256=store.sha256_json(windows),
    )


def _read(text: str) -> str:
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"fidelity.text: {text} cannot be read as UTF-8 text ({error})") from None


def _windows(ids: list[int], start: list[int], size: int) -> list[list[int]]:
    """A last window in which nothing could be scored, a single token, is left out."""
    step = size - len(start)
    found = [start + ids[place : place + step] for place in range(0, len(ids), step)]
    return [window for window in found if len(window) > 1]
