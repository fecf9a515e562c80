"""The `smoke` section of params.yaml: when an artifact counts as collapsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class SmokeSettings(BaseModel):
    """What is merely worse passes the smoke gate, and is judged by the gates on its metrics."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    timeout_s: int = Field(default=1800, ge=1)
    """For one variant, and for the base."""
    texts: int = Field(ge=1)
    """Short texts, cut from the beginning of the fidelity text."""
    tokens: int = Field(ge=16)
    """Of each text."""
    prompts: int = Field(ge=1)
    """Eval items whose prompts are answered."""
    kld_max: float = Field(gt=0)
    """Mean KL divergence from the base, in nats, above which the variant has collapsed."""
    top1_min: float = Field(ge=0, le=1)
    """Share of positions at which base and variant hold the same token likeliest, below which it has."""


def problems(smoke: Mapping[str, Any], available: Any) -> Iterator[str]:
    """What is wrong with the section beside its values' types and ranges; `available` is `fidelity.tokens`."""
    texts, tokens = smoke.get("texts"), smoke.get("tokens")
    if isinstance(texts, int) and isinstance(tokens, int) and isinstance(available, int) and texts * tokens > available:
        yield (
            f"smoke: {texts} texts of {tokens} tokens are {texts * tokens}, more than the {available} tokens of the "
            "fidelity text that they are cut from; lower one of them or raise fidelity.tokens"
        )
