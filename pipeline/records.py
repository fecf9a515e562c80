"""The data contracts between stages. Bytes are stored, seconds are stored, units stand in the names.

A value that could not be had is null with a reason (`Reading`), never 0, NaN or a sentinel.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline import store
from pipeline.errors import UserError

SCHEMA_VERSION: Literal[2] = 2

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Status(StrEnum):
    OK = "ok"
    FAILED = "failed"
    """The work raised, died or ran out of time."""
    INVALID = "invalid"
    """The work ended, but its numbers must not be used."""


class Reading(Record):
    """A number, or null with the reason why there is none."""

    value: float | None
    reason: str | None = None

    @model_validator(mode="after")
    def _missing_has_a_reason(self) -> Reading:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a reading has a value, or null and a reason; never both, never neither")
        return self


def known(value: float) -> Reading:
    return Reading(value=value)


def missing(reason: str) -> Reading:
    return Reading(value=None, reason=reason)


class Outcome(Record):
    """What every record of work says first."""

    schema_version: Literal[2, 3] = SCHEMA_VERSION
    variant: str
    status: Status
    reason: str | None = None

    @model_validator(mode="after")
    def _not_ok_has_a_reason(self) -> Outcome:
        if (self.status is Status.OK) != (self.reason is None):
            raise ValueError("status ok has no reason; any other status has one")
        return self


# --- environment -----------------------------------------------------------------------------------------------


class Gpu(Record):
    name: str
    memory_bytes: int
    driver: str


class Environment(Record):
    """Where speed was measured. No timestamps: equal machines give equal files."""

    schema_version: Literal[2] = SCHEMA_VERSION
    os: str
    python: str
    cpu: str
    cpu_cores: int
    memory_bytes: int
    gpus: list[Gpu]
    gpu_reason: str | None
    packages: dict[str, str]


# --- prompts ---------------------------------------------------------------------------------------------------


class WorkloadPrompt(Record):
    """One speed workload: `token_ids` has exactly `prompt_tokens` entries for every variant."""

    workload: str
    token_ids: list[int]
    prompt_sha256: Sha256
    output_tokens: int
    concurrency: int
    pairs: int
    """Turns of both sides in each pair of processes, after one that does not count."""


class WorkloadPrompts(Record):
    schema_version: Literal[2] = SCHEMA_VERSION
    tokenizer_sha256: Sha256
    workloads: list[WorkloadPrompt]


# --- engines ---------------------------------------------------------------------------------------------------


class EngineInfo(Record):
    name: str
    packages: dict[str, str]
    device: str
    device_name: str
    compute_dtype: str
    threads: int | None
    kernels: dict[str, int]
    """Class of each linear layer actually used → how many of them."""
    fallback_kernels: dict[str, str] = {}
    """Of these, the ones that do the work of another format here, and what they do instead."""
    attention: str
    settings: dict[str, str] = {}
    """How the process was set up: cores, waiting, allocator."""


# --- statistics ------------------------------------------------------------------------------------------------


class Interval(Record):
    """A mean over n items with its 95 % interval; the interval is null with a reason where there is none."""

    n: int
    mean: float
    ci_low: Reading
    ci_high: Reading


# --- decision --------------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    UNDECIDED = "UNDECIDED"
    """The interval holds the bound, or the value is missing: more readings are needed."""


class MoreOf(StrEnum):
    """What there could be more of to decide an undecided gate."""

    ITEMS = "items"
    TOKENS = "tokens"
    PROCESS_PAIRS = "process pairs"
    REQUESTS = "requests"


class GateVerdict(Record):
    gate: str
    metric: str
    verdict: Verdict
    value: float | None
    bound: float | None
    """In the metric's unit, with relative bounds already multiplied out; None where the baseline has no value."""
    reason: str
    workload: str | None = None
    """What the gate is asked of, where params.yaml says: else the deciding workload at its own concurrency, or all eval
    sets."""
    concurrency: int | None = None
    eval_set: str | None = None
    category: str | None = None
    passes_at: float | None = None
    """The strictest bound that would PASS with what was measured; None where none would."""
    fails_at: float | None = None
    """Any stricter bound than this would FAIL with what was measured; between the two it is UNDECIDED."""
    more: int | None = None
    """About how many more would decide it, of `more_of`. None where it is decided, where the value is missing, or where
    the value is so near the bound that no practical number would."""
    more_of: MoreOf | None = None


class VariantDecision(Record):
    variant: str
    status: Status
    verdict: Verdict
    """Over all gates: FAIL if any fails or the status is not ok, else UNDECIDED if any is."""
    on_frontier: bool
    """Over the decision's `axes`."""
    dominated_by: list[str]
    """Those on the frontier that are better beyond the uncertainty on one axis, and on none worse."""
    score: Reading
    """Weighted geometric mean of its improvements over the baseline, by `Decision.weights`; the baseline has 1."""
    score_ci_low: Reading
    score_ci_high: Reading
    """Ends of the 95 % interval of the score."""
    tied_with: list[str]
    """Of the variants that pass every gate, as this one does, those whose score is not told apart from this one's."""
    gates: list[GateVerdict]
    why: str
    """Why it is picked, or the one reason why it is not."""


class Decision(Record):
    """The answer, small and stable for machines. `pick` is null when no variant passes every gate."""

    schema_version: Literal[3] = 3
    pick: str | None
    headline: str
    baseline: str
    workload: str
    profile: str
    """Whose weights rank the variants that pass every gate."""
    weights: dict[str, float]
    """By axis, such as `speedup` or `aggregate_tokens_per_s@instruction:8`; they sum to 1."""
    profiles: dict[str, str | None]
    """What would be picked under each profile of params.yaml."""
    tie: float
    """Scores that differ by at most this share are not told apart."""
    would_have_to_give: list[str]
    """Where nothing is picked: what the variants nearest to passing lack, a sentence each; else empty."""
    axes: list[str]
    """What the frontier is over."""
    frontier: list[str]
    """The variants on it."""
    variants: list[VariantDecision]
    params_sha256: dict[str, Sha256]
    """Hash of each part of params.yaml that decides what is measured; tells whether the records are still current."""
    conditions_sha256: Sha256
    """Equal when models, prompts, items, engine and machine are: decisions with other conditions do not compare."""


AnyRecord = TypeVar("AnyRecord", bound=Record)


def load(path: Path, kind: type[AnyRecord]) -> AnyRecord:
    """Read a record.

    Raises:
        UserError: the file is missing, is not JSON, or does not hold such a record.
    """
    try:
        return kind.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: missing. Run `dvc repro` to make it.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where, schema = ".".join(map(str, first["loc"])), kind.model_fields["schema_version"].default
        what = ": ".join(filter(None, [where, first["msg"]]))
        raise UserError(
            f"{path}: not a {kind.__name__} of schema {schema} ({what}). Run `dvc repro` to make it anew."
        ) from None


def save(path: Path, record: Record) -> None:
    store.write_json(path, record.model_dump(mode="json"))


def save_items(path: Path, items: Sequence[Record]) -> None:
    store.write_jsonl(path, [item.model_dump(mode="json") for item in items])
