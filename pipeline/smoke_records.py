"""The data contract of the smoke gate: what an artifact loaded from disk is asked, and what each check found.

Equal inputs give equal bytes: nothing here tells when or how fast it was made.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from pipeline.quality_records import Flaw
from pipeline.records import EngineInfo, Outcome, Reading, Record, Sha256

SCHEMA_VERSION: Literal[3] = 3


class SmokeTexts(Record):
    """What the base and every variant read and answer in the smoke gate."""

    schema_version: Literal[3] = SCHEMA_VERSION
    text: str
    """Path of the text that the windows are cut from: the fidelity text."""
    windows: list[list[int]]
    """Short texts as token ids; each begins anew."""
    prompts: list[list[int]]
    """Prompts of eval items, as token ids."""
    sha256: Sha256
    """Hash over both."""


class Answer(Record):
    text: str
    flaw: Flaw | None


class Reference(Record):
    """What the base gave for the texts, or why it gave nothing; its logits stand in a file beside this."""

    schema_version: Literal[3] = SCHEMA_VERSION
    reason: str | None = None
    """Why the base could not be read; None where it was."""
    artifact_sha256: Sha256
    engine: EngineInfo | None = None
    broken_weights: dict[str, str] = Field(default_factory=dict)
    """As `Session.broken_weights`: what a variant shares with its base is not the variant's fault."""
    answers: list[Answer] = Field(default_factory=list)


class CheckOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """It could not be made, which the words explain; it counts neither for nor against the variant."""


class Check(Record):
    name: str
    outcome: CheckOutcome
    words: str
    readings: dict[str, Reading] = Field(default_factory=dict)
    """Numbers that decided, in the unit that the name says: KLD in nats, shares of one, counts."""


def passed(name: str, words: str, **readings: Reading) -> Check:
    return Check(name=name, outcome=CheckOutcome.PASSED, words=words, readings=readings)


def failed(name: str, words: str, **readings: Reading) -> Check:
    return Check(name=name, outcome=CheckOutcome.FAILED, words=words, readings=readings)


def skipped(name: str, words: str, **readings: Reading) -> Check:
    return Check(name=name, outcome=CheckOutcome.SKIPPED, words=words, readings=readings)


class SmokeRecord(Outcome):
    """INVALID where a check failed; the reason names each that did."""

    schema_version: Literal[3] = SCHEMA_VERSION
    stage: Literal["smoke"] = "smoke"
    artifact_sha256: Sha256 | None = None
    base_artifact_sha256: Sha256 | None = None
    texts_sha256: Sha256 | None = None
    engine: EngineInfo | None = None
    checks: list[Check] = Field(default_factory=list)


class SmokeVerdict(Record):
    """Whether later stages measure the variant. Apart from the record, so that a reading or a threshold that changes
    without changing the verdict measures nothing anew."""

    schema_version: Literal[3] = SCHEMA_VERSION
    reason: str | None
    """Why they do not; None where they do."""
