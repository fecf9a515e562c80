"""What the engine's tests ask the tiny model."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.engines.transformers import TransformersSession

PROMPT = list(range(40, 52))
Load = Callable[..., TransformersSession]
"""Loads a copy of a model, by default the lively one, with some keys of its generation config replaced."""
