"""The data contract of `quantgate rescue`: what each part of a variant loses on its own, and which parts to keep."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.records import Record, Sha256


class Group(Record):
    """Quantized modules that are kept in 16 bits together or not at all."""

    modules: list[str] = Field(min_length=1)
    kld: float
    """Mean KL(base ‖ base with only these modules quantized), nats."""
    extra_bytes: int
    """What keeping them in 16 bits adds to the weight files."""


class Sensitivity(Record):
    """Equal inputs give equal bytes, as far as the machine computes alike."""

    artifact_sha256: Sha256
    base_artifact_sha256: Sha256
    text_sha256: Sha256
    tokens: int
    """As many of the text were asked for."""
    positions: int
    """What the means are over."""
    kld: float
    """Mean KL(base ‖ variant) on these positions as the engine runs the variant, nats."""
    groups: list[Group]
    """In the order of the model."""


class Proposal(Record):
    schema_version: Literal[1] = 1
    sensitivity: Sensitivity
    budget_bytes: int
    kept: list[Group]
    kld_kept: float
    """Mean KLD of the base with all groups but the kept ones quantized as they are now, nats."""
    kld_none_kept: float
    """The same with every group quantized: near `Sensitivity.kld`, where the groups are what the variant lost."""
