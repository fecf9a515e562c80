"""The data contract of quality: what is asked of every variant, what each answered, and how near it is to the baseline.

Statistics over items are derived in `pipeline.metrics`; only what belongs to one variant alone stands in its record.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from pipeline import store
from pipeline.errors import UserError
from pipeline.records import EngineInfo, Interval, Outcome, Reading, Record, Sha256

SCHEMA_VERSION: Literal[3] = 3
"""Of what stands here; those of artifacts and speed have one of their own."""


class Choice(Record):
    """One answer of a multiple-choice item, as it follows the prompt."""

    text: str
    token_ids: list[int] = Field(min_length=1)
    bytes: int
    """UTF-8 length of the text: what the length-normalised pick divides by."""


class ItemPrompt(Record):
    """One tokenized eval item, the same for every variant."""

    item_id: str
    category: str
    critical: bool
    cluster: str | None = None
    """The document or conversation that the item shares with others; None where it stands alone."""
    weight: float = 1.0
    """Of its category, relative to the set's other categories."""
    scorer: str
    target: Any
    max_new_tokens: int
    prompt: str
    """The user's last message for people to read; a document stands as its name."""
    token_ids: list[int]
    prompt_sha256: Sha256
    """Hash over the token ids, and over those of the choices where there are any."""
    choices: list[Choice] = Field(default_factory=list)
    """Of a multiple-choice item; empty for items that are answered freely."""
    over_context: bool = False
    """Prompt and answer do not fit into the model's context: not asked, but counted and named."""


class FinishReason(StrEnum):
    STOP = "stop"
    """The model ended its answer itself."""
    LENGTH = "length"
    """The answer was cut at max_new_tokens."""
    CHOICE = "choice"
    """Nothing was generated: a choice was picked by its likelihood."""


class Flaw(StrEnum):
    """What is wrong with an answer whatever was asked."""

    EMPTY = "empty"
    REFUSAL = "refusal"
    """It declines to answer."""
    DEGENERATE = "degenerate"
    """It repeats itself without end, or is mostly not text."""


class ItemResult(Record):
    """One scored item; stands as one line in the items file."""

    item_id: str
    category: str
    critical: bool
    cluster: str | None = None
    weight: float = 1.0
    prompt_sha256: Sha256
    prompt: str
    target: Any
    output: str
    score: float = Field(ge=0, le=1)
    passed: bool
    """score == 1."""
    finish_reason: FinishReason
    flaw: Flaw | None = None
    output_tokens: int
    choice_logprobs: list[float] | None = None
    """Sum of the natural log-probabilities of each choice's tokens."""


class Invariance(Record):
    """A sample of items answered again one by one: what the batch alone changes."""

    items: int
    differing: int
    """Answers whose text is another one."""
    flips: list[str]
    """Items whose pass/fail is another one."""


class JudgeUse(Record):
    """A language model that scored answers, and how far it agrees with people."""

    model: str
    labelled: int
    agreement: Reading
    """Share of labelled answers on which both say the same."""
    kappa: Reading
    """Cohen's kappa: agreement beyond chance."""


class QualityRecord(Outcome):
    """Equal inputs give equal bytes: nothing here tells when or how fast it was made."""

    schema_version: Literal[3] = SCHEMA_VERSION
    stage: Literal["evaluate"] = "evaluate"
    eval_set: str
    eval_set_version: str | None = None
    eval_set_sha256: Sha256 | None = None
    """Hash over the items as tokenized, their targets and scorers."""
    artifact_sha256: Sha256 | None = None
    engine: EngineInfo | None = None
    decoding: dict[str, Any] = Field(default_factory=dict)
    overall: Interval | None = None
    categories: dict[str, Interval] = Field(default_factory=dict)
    finish_reasons: dict[FinishReason, int] = Field(default_factory=dict)
    flaws: dict[Flaw, int] = Field(default_factory=dict)
    """Answers with each flaw; a flaw that none has is left out."""
    over_context: list[str] = Field(default_factory=list)
    """Items that were not asked, since prompt and answer do not fit into the model's context."""
    invariance: Invariance | None = None
    judge: JudgeUse | None = None


class FidelityText(Record):
    """The text on which variants are compared with the baseline, token by token, the same for every variant."""

    schema_version: Literal[3] = SCHEMA_VERSION
    tokenizer_sha256: Sha256
    text: str
    """Path of the text."""
    tokens: int
    """Of the text, without what the tokenizer puts before it."""
    window_tokens: int
    windows: list[list[int]]
    """Token ids as the models read them, at most `window_tokens` each; every window begins anew."""
    text_sha256: Sha256
    """Hash over the windows."""


class Block(Record):
    """A run of consecutive positions of the fidelity text, sums over its positions; natural logarithms."""

    tokens: int
    nll: float
    """Negative log-likelihood of the text's next tokens under the variant."""
    baseline_nll: float
    kld: float
    """KL(baseline ‖ variant) of the next-token distributions."""
    agreed: int
    """Positions at which both hold the same token likeliest."""


class FidelityRecord(Outcome):
    """How near a variant's next-token distributions are to the baseline's, on one text, with the same tokens before."""

    schema_version: Literal[3] = SCHEMA_VERSION
    stage: Literal["fidelity"] = "fidelity"
    text: str | None = None
    """Path of the text."""
    text_sha256: Sha256 | None = None
    """Hash over its token ids."""
    window_tokens: int | None = None
    artifact_sha256: Sha256 | None = None
    baseline_artifact_sha256: Sha256 | None = None
    engine: EngineInfo | None = None
    blocks: list[Block] = Field(default_factory=list)
    kld_p99: float | None = None
    """Over single positions, in nats."""
    kld_max: float | None = None


def load_items(path: Path) -> list[ItemResult]:
    """Read the per-item results of one variant on one eval set.

    Raises:
        UserError: the file is missing, or a line of it does not hold such a result.
    """
    try:
        return [ItemResult.model_validate_json(line) for line in store.read_lines(path)]
    except FileNotFoundError:
        raise UserError(f"{path}: missing. Run `dvc repro` to make it.") from None
    except ValidationError as error:
        raise UserError(f"{path}: {error.errors()[0]['msg']}. Run `dvc repro` to make it anew.") from None
