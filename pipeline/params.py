"""params.yaml as frozen models. Read as a whole; all mistakes are reported at once, before any work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline import plugins, smoke_settings, store
from pipeline.errors import UserError, nearest
from pipeline.judge_settings import JudgeSettings
from pipeline.metrics import catalogue
from pipeline.smoke_settings import SmokeSettings
from pipeline.yaml_files import read_yaml, section_problems

NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
PLUGINS = {"source": "pipeline.sources", "quantizer": "pipeline.quantizers", "engine": "pipeline.engines"}


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
    """A requirement on one metric. Relative bounds are a multiple of the baseline's value."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    relative: bool = False


class Decision(Section):
    workload: str
    """The workload whose speed stands in the table and decides."""
    prefer: list[str] = Field(min_length=1)
    """Metrics that rank the variants which pass every gate: the first decides, the next breaks ties."""
    tie: float = Field(default=0.05, ge=0, lt=1)
    """Values that differ by less than this share are a tie."""


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
    return parse(read_yaml(path), str(path))


def parse(raw: Any, where: str = "params.yaml") -> Params:
    """Raw YAML value → Params; see `load`."""
    if not isinstance(raw, dict):
        raise UserError(f"{where}: expected a mapping of settings, got {type(raw).__name__}")
    problems = list(_problems(raw))
    if problems:
        raise UserError(f"{where}: {problem}" for problem in problems)
    return Params.model_validate(raw)


def _problems(raw: dict[str, Any]) -> Iterator[str]:
    yield from section_problems(Params, raw)
    yield from _name_problems(raw)
    yield from _plugin_problems(raw)
    yield from _reference_problems(raw)
    yield from _fidelity_problems(_mapping(raw, "fidelity"))
    yield from smoke_settings.problems(_mapping(raw, "smoke"), _mapping(raw, "fidelity").get("tokens"))


def _mapping(raw: Any, *keys: str) -> Mapping[str, Any]:
    """The mapping at a path, or an empty one where the file has something else (reported by the schema)."""
    for key in keys:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw if isinstance(raw, dict) else {}


def _name_problems(raw: dict[str, Any]) -> Iterator[str]:
    for keys in (("variants",), ("eval_sets",), ("gates",), ("benchmark", "workloads")):
        for name in _mapping(raw, *keys):
            if not NAME.fullmatch(str(name)):
                yield (
                    f"{'.'.join(keys)}: {name!r} is not a valid name; "
                    "use lower-case letters, digits and '-', beginning with a letter or digit"
                )


def _plugin_problems(raw: dict[str, Any]) -> Iterator[str]:
    source = dict(_mapping(raw, "model", "source"))
    if isinstance(_mapping(raw, "model").get("source"), dict):
        yield from _settings_problems("model.source", "kind", "source", source.pop("kind", None), source)
    for name in _mapping(raw, "variants"):
        variant = _mapping(raw, "variants", name)
        place = f"variants.{name}"
        settings = variant.get("settings", {})
        if isinstance(variant.get("quantizer"), str) and isinstance(settings, dict):
            yield from _settings_problems(place, "quantizer", "quantizer", variant["quantizer"], settings)
        engine = variant.get("engine")
        if isinstance(engine, str):
            yield from _engine_problems(place, engine, variant.get("quantizer"))


def _settings_problems(place: str, key: str, kind: str, name: Any, settings: dict[str, Any]) -> Iterator[str]:
    allowed = plugins.names(PLUGINS[kind])
    if name not in allowed:
        yield f"{place}.{key}: unknown {kind} {name!r}; {nearest(str(name), allowed)}"
        return
    inner = f"{place}.settings" if kind == "quantizer" else place
    yield from section_problems(plugins.load(PLUGINS[kind], name).Settings, settings, inner)


def _engine_problems(place: str, engine: str, quantizer: Any) -> Iterator[str]:
    allowed = plugins.names(PLUGINS["engine"])
    if engine not in allowed:
        yield f"{place}.engine: unknown engine {engine!r}; {nearest(engine, allowed)}"
    elif quantizer in plugins.names(PLUGINS["quantizer"]):
        made = plugins.load(PLUGINS["quantizer"], quantizer).FORMAT
        loads = plugins.load(PLUGINS["engine"], engine).FORMATS
        if made not in loads:
            yield f"{place}: engine {engine!r} cannot load the {made!r} format; it loads {', '.join(sorted(loads))}"


def _bound_problems(place: str, gate: Mapping[str, Any]) -> Iterator[str]:
    """Bounds that cannot be meant.

    Points or per cent for a share, a multiple of what is 0 or 1 by definition, and a multiple of what is also compared
    with the baseline in pairs.
    """
    metric = catalogue.BY_NAME.get(str(gate.get("metric")))
    if metric is None:
        return
    if gate.get("relative") is True and metric.versus_baseline:
        yield f"{place}.relative: {metric.name} is relative to the baseline already; give the bound itself"
    if gate.get("relative") is True and metric.paired:
        better = "higher" if catalogue.BY_NAME[metric.paired].higher_is_better else "lower"
        yield (
            f"{place}.relative: the ratio of two values of {metric.name} has no interval; give a bound on "
            f"{metric.paired} instead, for which variant and baseline are paired ({better} is better)"
        )
    for key in ("at_least", "at_most"):
        bound = gate.get(key)
        if metric.unit == "share" and isinstance(bound, int | float) and not gate.get("relative") and abs(bound) > 1:
            yield f"{place}.{key}: {metric.name} is a share, so {bound} is out of reach; 8 points are 0.08"


def _fidelity_problems(fidelity: Mapping[str, Any]) -> Iterator[str]:
    tokens, window = fidelity.get("tokens"), fidelity.get("window_tokens")
    if isinstance(tokens, int) and isinstance(window, int) and tokens < 2 * window:
        yield (
            f"fidelity.tokens: {tokens} are fewer than two windows of {window} (fidelity.window_tokens); ask for at "
            f"least {2 * window}, or for shorter windows"
        )


def _reference_problems(raw: dict[str, Any]) -> Iterator[str]:
    variants = list(_mapping(raw, "variants"))
    baseline = raw.get("baseline")
    if isinstance(baseline, str) and variants and baseline not in variants:
        yield f"baseline: no variant {baseline!r}; {nearest(baseline, variants)}"
    workloads = list(_mapping(raw, "benchmark", "workloads"))
    workload = _mapping(raw, "decision").get("workload")
    if isinstance(workload, str) and workloads and workload not in workloads:
        yield f"decision.workload: no workload {workload!r}; {nearest(workload, workloads)}"
    sweep = _mapping(raw, "benchmark", "sweep").get("workload")
    if isinstance(sweep, str) and workloads and sweep not in workloads:
        yield f"benchmark.sweep.workload: no workload {sweep!r}; {nearest(sweep, workloads)}"
    pairs: dict[str, tuple[str, str]] = {}
    for variant in map(str, variants):
        for eval_set in map(str, _mapping(raw, "eval_sets")):
            first = pairs.setdefault(f"{variant}-{eval_set}", (variant, eval_set))
            if first != (variant, eval_set):
                yield (
                    f"variants.{variant}: with eval set {eval_set!r} it has the same stage name as variant "
                    f"{first[0]!r} with {first[1]!r}; rename one"
                )
    known = [metric.name for metric in catalogue.METRICS]
    ranked = [metric.name for metric in catalogue.METRICS if metric.higher_is_better is not None]
    prefer = _mapping(raw, "decision").get("prefer")
    for name in prefer if isinstance(prefer, list) else []:
        if isinstance(name, str) and name not in ranked:
            yield f"decision.prefer: no metric {name!r} that has a better direction; {nearest(name, ranked)}"
    for gate in _mapping(raw, "gates"):
        settings = _mapping(raw, "gates", gate)
        if isinstance(settings.get("metric"), str) and settings["metric"] not in known:
            yield f"gates.{gate}.metric: no metric {settings['metric']!r}; {nearest(settings['metric'], known)}"
        yield from _bound_problems(f"gates.{gate}", settings)
        if settings and sum(settings.get(bound) is not None for bound in ("at_least", "at_most")) != 1:
            yield f"gates.{gate}: give exactly one of at_least and at_most"
