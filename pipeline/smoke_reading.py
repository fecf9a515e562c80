"""How the base and every variant read the smoke gate's texts and answer its prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline import progress, store
from pipeline.engines import Session
from pipeline.scorers import flaws
from pipeline.smoke_records import Answer
from pipeline.tokenizer import Tokenizer

SCORED = 8
"""Tokens at the end of each text at which distributions are compared: those before are the context that tells them."""
ANSWER_TOKENS = 48
"""Long enough for a loop to show."""


def scored_logits(session: Session, windows: Sequence[Sequence[int]]) -> Iterator[Any]:
    """Of each window the logits [positions, vocabulary] whose next tokens are `scored_tokens`."""
    for done, window in enumerate(windows, 1):
        # The last logits are of a token that the text does not have. Copied, so that the rest of the array can go.
        yield session.next_token_logits(window)[:-1][-SCORED:].copy()
        progress.report(done, len(windows), "texts")


def scored_tokens(window: Sequence[int]) -> Sequence[int]:
    return window[1:][-SCORED:]


def answers(session: Session, prompts: Sequence[Sequence[int]]) -> list[Answer]:
    """Greedy answers; a refusal is an answer like any other here."""
    tokenizer = Tokenizer(store.BASE)
    texts = [tokenizer.decode(done.token_ids) for done in session.generate(prompts, ANSWER_TOKENS)]
    return [Answer(text=text, flaw=flaws.detect(text)) for text in texts]
