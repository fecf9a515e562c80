"""The section `judge` of params.yaml: where a language model scores answers, and how it is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class JudgeSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    base_url: str = Field(pattern=r"^https?://\S+$")
    """Up to and with the version, e.g. http://localhost:8000/v1; `/chat/completions` is added."""
    model: str = Field(min_length=1)
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; None where the endpoint wants none."""
    timeout_s: float = Field(default=60.0, gt=0)
    """For one request."""
    attempts: int = Field(default=4, ge=1)
    """Requests per answer, where the endpoint cannot be reached, is busy (429) or fails (5xx)."""
    first_wait_s: float = Field(default=1.0, ge=0)
    """Before the second request; doubled before each further one, up to a minute."""
    concurrency: int = Field(default=4, ge=1)
    """Requests under way at once."""
    max_tokens: int = Field(default=512, ge=1)
    """For one verdict."""
    seed: int = 0


def key_problems(settings: JudgeSettings) -> Iterator[str]:
    """That the key is not where the settings say. Never tells the value: it might be the key itself."""
    name = settings.api_key_env
    if name is not None and not _VARIABLE.fullmatch(name):
        yield "judge.api_key_env must be the name of an environment variable that holds the key, not the key itself"
    elif name is not None and not os.environ.get(name):
        yield f"judge.api_key_env: there is no environment variable {name}; export it, or set it to null"
