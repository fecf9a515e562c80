"""params.yaml as frozen models. Read as a whole; all mistakes are reported at once, before any work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from pipeline import gate_bounds, gate_checks, params_checks, store
from pipeline.errors import UserError
from pipeline.judge_settings import JudgeSettings
from pipeline.metrics.scope import Scope
from pipeline.smoke_settings import SmokeSettings
from pipeline.yaml_files import read_yaml, section_problems


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Model(Section):
    name: str
    licence: str
    provenance: str = ""
    source: dict[str, Any]
    """`kind` names a file in pipeline/sources; the other keys are that source's own settings."""

    def source_settings(self) -> tuple[str, dict[str, Any]]:
        """The kind of source, and its own settings."""
        return str(self.source["kind"]), {key: value for key, value in self.source.items() if key != "kind"}


class ComputeDtype(Section):
    cpu: Literal["float32", "bfloat16", "float16"]
    cuda: Literal["float32", "bfloat16", "float16"]


Allocator = Literal["default", "retain"]


class Runtime(Section):
    device: Literal["auto", "cpu", "cuda"]
    compute_dtype: ComputeDtype
    threads: int = Field(ge=1)
    """CPU threads of each worker process."""
    cores: list[int] | None
    """CPU cores that workers may run on, by number; None: all."""
    waiting: Literal["passive", "active", "default"]
    """What threads do at a barrier: sleep, spin, or what their library does unless told."""
    allocator: Allocator
    """What the C library does with freed memory: give large blocks back to the system at once, or keep them."""


class Variant(Section):
    quantizer: str
    engine: str
    settings: dict[str, Any] = {}
    """Checked against the `Settings` of the quantizer's file."""


class Workload(Section):
    text: str
    """A text file; its first `prompt_tokens` tokens are the prompt."""
    prompt_tokens: int = Field(ge=1)
    output_tokens: int = Field(ge=2)
    concurrency: int = Field(default=1, ge=1)
    """Streams that are answered together."""
    pairs: int = Field(ge=1)
    """Turns of variant and baseline in each pair of processes."""


class Sweep(Section):
    """One workload at several concurrencies."""

    workload: str
    concurrency: list[Annotated[int, Field(ge=1)]]
    """Empty where no sweep is wanted."""
    pairs: int = Field(ge=1)
    """Turns of each side in each pair of processes."""


class Pairing(Section):
    """How long variant and baseline are measured in alternation."""

    processes: int = Field(ge=3)
    """Pairs of fresh processes that measure every workload and the sweep. Two processes of one model differ by some
    per cent, so fewer than three say nothing about the model."""
    half_width: float = Field(gt=0, lt=1)
    """More pairs of processes follow, on the deciding workload alone, until the speed-up's 95 % interval is at most
    this share of it to either side…"""
    budget_s: int = Field(ge=0)
    """…or this much time is spent on one variant."""
    alternation: Literal["auto", "resident", "blocks"]
    """`auto`: both models stay loaded where memory allows, else one is loaded at a time."""
    load_timeout_s: int = Field(ge=1)
    request_timeout_s: int = Field(ge=1)
    workload_timeout_s: int = Field(ge=1)
    """For one side's turns of one workload at one concurrency in one process; those left are counted as skipped."""


class Benchmark(Section):
    timeout_s: int = Field(default=7200, ge=1)
    """For one variant."""
    pairing: Pairing
    workloads: dict[str, Workload] = Field(min_length=1)
    sweep: Sweep


class Objective(Section):
    """Service level objective: a request counts as good when it meets all of these."""

    ttft_s: float = Field(gt=0)
    tpot_s: float = Field(gt=0)


class Serving(Section):
    """What the variants will be served on and how well; used by the report alone, so nothing is measured anew."""

    objective: Objective
    memory_gib: float = Field(gt=0)
    """Memory for "what fits"."""
    tensor_parallel: int = Field(default=1, ge=1)
    """Devices that each layer is split among; checked against the layers and group sizes, not measured."""
    price_per_hour: float | None = Field(default=None, ge=0)
    """What the machine costs."""
    currency: str = "USD"
    max_spread: float = Field(default=0.25, gt=0)
    """Middle half of a workload's decode rates over their median; where it is wider, its speeds are not used."""


class Evaluate(Section):
    timeout_s: int = Field(default=3600, ge=1)
    batch_size: int = Field(ge=1)
    invariance_items: int = Field(ge=0)
    """Items of each set that are asked again one by one, to see what the batch alone changes."""


class Fidelity(Section):
    """On what text, and how much of it, each variant's next-token distributions are compared with the baseline's."""

    timeout_s: int = Field(default=3600, ge=1)
    """For one variant."""
    text: str
    """A text file; its first `tokens` tokens are read."""
    tokens: int = Field(ge=1)
    window_tokens: int = Field(ge=16)
    """Tokens that a model reads at once; nothing before them is known to it."""


class Quantize(Section):
    timeout_s: int = Field(default=7200, ge=1)
    allocator: Allocator = "retain"
    """As `runtime.allocator`, for the workers that quantize."""


class EvalSet(Section):
    weight: float = Field(default=1.0, gt=0)
    """Share of this eval set in the overall quality, relative to the other sets."""


class Gate(Section):
    """A requirement on one metric, of everything or of one part. Exactly one of `at_least` and `at_most` is given."""

    metric: str
    relative: bool = False
    """The bound is a multiple of the baseline's value."""
    at_least: float | None = None
    """In the metric's unit; in the file also with a unit, as in `24 GiB`, `500 ms` or `-2 pp`."""
    at_most: float | None = None
    workload: str | None = None
    """None: `decision.workload`."""
    concurrency: int | None = Field(default=None, ge=1)
    """Streams of `workload`; None: its own."""
    eval_set: str | None = None
    """None: all of them, by their weights."""
    category: str | None = None
    """Of `eval_set`; None: all of them."""

    @field_validator("at_least", "at_most", mode="before")
    @classmethod
    def _without_unit(cls, bound: Any, info: ValidationInfo) -> Any:
        if not isinstance(bound, str):
            return bound
        return gate_bounds.parse(bound, info.data.get("metric", ""), relative=info.data.get("relative", False))

    @property
    def scope(self) -> Scope:
        return Scope(self.workload, self.concurrency, self.eval_set, self.category)

    @property
    def bound(self) -> float:
        """As given: of a relative gate the multiple."""
        bound = self.at_least if self.at_least is not None else self.at_most
        assert bound is not None, "params.yaml is refused without one"
        return bound


class Profile(Section):
    """What one kind of use values."""

    weights: dict[str, Annotated[float, Field(gt=0)]] = Field(min_length=1)
    """By axis (`pipeline.metrics.axes`); only their proportions count."""


class Decision(Section):
    workload: str
    """The workload whose speed stands in the table and decides."""
    profile: str
    """Of `profiles`, the one that ranks the variants which pass every gate."""
    profiles: dict[str, Profile] = Field(min_length=1)
    tie: float = Field(default=0.05, ge=0, lt=1)
    """Scores that differ by at most this share are a tie, and so are values without an interval on the frontier."""
    frontier: list[str] = Field(min_length=1)
    """Axes of the Pareto frontier."""


class Params(Section):
    """All of params.yaml. What dvc.yaml tracks has no default, since DVC wants to see it in the file."""

    model: Model
    runtime: Runtime
    seed: int = Field(ge=0)
    baseline: str
    variants: dict[str, Variant] = Field(min_length=1)
    quantize: Quantize = Quantize()
    smoke: SmokeSettings
    benchmark: Benchmark
    serving: Serving
    evaluate: Evaluate
    eval_sets: dict[str, EvalSet] = Field(min_length=1)
    judge: JudgeSettings | None
    """A language model that scores the categories whose scorer is `judge`; None: there are no such categories."""
    fidelity: Fidelity
    gates: dict[str, Gate]
    decision: Decision


def load(path: Path = store.PARAMS) -> Params:
    """Read and check params.yaml.

    Raises:
        UserError: with every mistake found, each with its place in the file.
    """
    return parse(read(path), str(path))


def read(path: Path) -> Any:
    """The raw value of params.yaml; raises UserError when it is missing or is not YAML."""
    if not path.exists():
        raise UserError(f"{path}: not found. Run this in the folder that holds it.")
    return read_yaml(path)


def parse(raw: Any, where: str = "params.yaml") -> Params:
    """Raw YAML value → Params; see `load`."""
    found = list(problems(raw))
    if found:
        raise UserError(f"{where}: {problem}" for problem in found)
    return Params.model_validate(raw)


def problems(raw: Any) -> Iterator[str]:
    """Every mistake in the raw value of params.yaml, each beginning with its place."""
    if not isinstance(raw, dict):
        yield f"must be settings by name, as in `name: value`, got {'nothing' if raw is None else repr(raw)[:80]}"
        return
    yield from section_problems(Params, raw)
    yield from params_checks.problems(raw)
    yield from gate_checks.problems(raw)
