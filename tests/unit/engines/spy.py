"""What a session asks of its model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.engines.transformers import TransformersSession


@dataclass(frozen=True)
class Pass:
    """One forward pass."""

    ids: list[list[int]]
    mask: Any
    logits: tuple[int, ...]
    """Shape of the logits that came out."""


@contextlib.contextmanager
def passes(session: TransformersSession) -> Iterator[list[Pass]]:
    """The forward passes made meanwhile."""
    seen: list[Pass] = []

    def note(_module: Any, _args: Any, given: dict[str, Any], output: Any) -> None:
        seen.append(Pass(given["input_ids"].tolist(), given.get("attention_mask"), tuple(output.logits.shape)))

    handle = session._model.register_forward_hook(note, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()
