"""What a schema cannot say of params.yaml: names that point nowhere, settings of plugins, numbers that do not go
together. Gates have a file of their own, gate_checks.py."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pipeline import plugins, smoke_settings, store
from pipeline.errors import UserError, nearest
from pipeline.metrics import axes, catalogue
from pipeline.yaml_files import section_problems

NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_MOST_WEIGHT = 1_000_000
"""Far larger ones have no finite sum."""
PLUGINS = {"source": "pipeline.sources", "quantizer": "pipeline.quantizers", "engine": "pipeline.engines"}


def problems(raw: Mapping[str, Any]) -> Iterator[str]:
    """Every such mistake in the raw value of params.yaml; parts that are of a wrong kind are left to the schema."""
    yield from _name_problems(raw)
    yield from _plugin_problems(raw)
    yield from _reference_problems(raw)
    yield from _decision_problems(raw)
    yield from _fidelity_problems(mapping(raw, "fidelity"))
    yield from smoke_settings.problems(mapping(raw, "smoke"), mapping(raw, "fidelity").get("tokens"))


def mapping(raw: Any, *keys: str) -> Mapping[str, Any]:
    """The mapping at a path, or an empty one where the file has something else."""
    for key in keys:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw if isinstance(raw, dict) else {}


def _name_problems(raw: Mapping[str, Any]) -> Iterator[str]:
    for keys in (("variants",), ("eval_sets",), ("gates",), ("benchmark", "workloads")):
        for name in mapping(raw, *keys):
            if not NAME.fullmatch(str(name)):
                yield (
                    f"{'.'.join(keys)}: {name!r} is not a valid name; "
                    "use lower-case letters, digits and '-', beginning with a letter or digit"
                )


def _plugin_problems(raw: Mapping[str, Any]) -> Iterator[str]:
    source = dict(mapping(raw, "model", "source"))
    if isinstance(mapping(raw, "model").get("source"), dict):
        yield from _settings_problems("model.source", "kind", "source", source.pop("kind", None), source)
    for name in mapping(raw, "variants"):
        variant = mapping(raw, "variants", name)
        place = f"variants.{name}"
        settings = variant.get("settings", {})
        if isinstance(variant.get("quantizer"), str) and isinstance(settings, dict):
            yield from _settings_problems(place, "quantizer", "quantizer", variant["quantizer"], settings)
        engine = variant.get("engine")
        if isinstance(engine, str):
            yield from _engine_problems(place, engine, variant.get("quantizer"), settings)


def _settings_problems(place: str, key: str, kind: str, name: Any, settings: dict[str, Any]) -> Iterator[str]:
    allowed = plugins.names(PLUGINS[kind])
    if name not in allowed:
        yield f"{place}.{key}: unknown {kind} {name!r}; {nearest(str(name), allowed)}"
        return
    faults = plugins.problems(PLUGINS[kind], name)
    if faults:
        yield from (f"{place}.{key}: {fault}" for fault in faults)
        return
    inner = f"{place}.settings" if kind == "quantizer" else place
    yield from section_problems(plugins.load(PLUGINS[kind], name).Settings, settings, inner)


def _engine_problems(place: str, engine: str, quantizer: Any, settings: Any) -> Iterator[str]:
    allowed = plugins.names(PLUGINS["engine"])
    if engine not in allowed:
        yield f"{place}.engine: unknown engine {engine!r}; {nearest(engine, allowed)}"
    elif faults := plugins.problems(PLUGINS["engine"], engine):
        yield from (f"{place}.engine: {fault}" for fault in faults)
    elif quantizer in plugins.names(PLUGINS["quantizer"]) and not plugins.problems(PLUGINS["quantizer"], quantizer):
        made = plugins.load(PLUGINS["quantizer"], quantizer).FORMAT
        loading = plugins.load(PLUGINS["engine"], engine)
        if made not in loading.FORMATS:
            loads = ", ".join(sorted(loading.FORMATS))
            yield f"{place}: engine {engine!r} cannot load the {made!r} format; it loads {loads}"
        elif not loading.QUANTIZES_AT_LOAD and _quantized_at_load(quantizer, settings):
            yield (
                f"{place}: engine {engine!r} does not quantize weights while it loads them, and these settings store "
                "unquantized ones for that; change the engine or the settings"
            )


def _quantized_at_load(quantizer: str, settings: Any) -> bool:
    """Whether these settings, where they are valid, leave the quantizing to the engine."""
    kind = plugins.load(PLUGINS["quantizer"], quantizer).Settings
    with contextlib.suppress(ValidationError):
        return bool(kind.model_validate(settings).quantizes_at_load())
    return False


def _fidelity_problems(fidelity: Mapping[str, Any]) -> Iterator[str]:
    tokens, window = fidelity.get("tokens"), fidelity.get("window_tokens")
    if isinstance(tokens, int) and isinstance(window, int) and tokens < 2 * window:
        yield (
            f"fidelity.tokens: {tokens} are fewer than two windows of {window} (fidelity.window_tokens); ask for at "
            f"least {2 * window}, or for shorter windows"
        )


def _decision_problems(raw: Mapping[str, Any]) -> Iterator[str]:
    decision = mapping(raw, "decision")
    profiles, chosen = mapping(decision, "profiles"), decision.get("profile")
    if isinstance(chosen, str) and profiles and chosen not in profiles:
        yield f"decision.profile: no profile {chosen!r} in decision.profiles; {nearest(chosen, list(profiles))}"
    for name in profiles:
        for axis in mapping(profiles, name, "weights"):
            place = f"decision.profiles.{name}.weights"
            yield from _axis_problems(raw, place, axis)
            yield from _no_ratio(place, axis)
            weight = mapping(profiles, name, "weights")[axis]
            if isinstance(weight, int | float) and weight > _MOST_WEIGHT:
                yield f"{place}.{axis}: must be {_MOST_WEIGHT:,} or less, got {weight:g}; only proportions count"
    over = decision.get("frontier")
    for axis in over if isinstance(over, list) else []:
        yield from _axis_problems(raw, "decision.frontier", axis)
    if isinstance(over, list):
        yield from _repeated(raw, list(map(str, over)))


def _repeated(raw: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """One axis under two names, such as `speedup` and `speedup@` with the deciding workload."""
    workloads = mapping(raw, "benchmark", "workloads")
    own = {str(name): mapping(workloads, name).get("concurrency", 1) for name in workloads}
    plain = axes.Plain(str(mapping(raw, "decision").get("workload")), own, [*map(str, mapping(raw, "eval_sets"))])
    found: dict[object, str] = {}
    for name in names:
        try:
            axis: object = plain(axes.parse_axis(name))
        except UserError:
            axis = name
        if axis in found:
            yield f"decision.frontier: an axis is named twice, as {found[axis]} and as {name}"
        found.setdefault(axis, name)


def _axis_problems(raw: Mapping[str, Any], place: str, text: Any) -> Iterator[str]:
    if not isinstance(text, str):
        return
    try:
        axis = axes.parse_axis(text)
    except UserError as error:
        yield from (f"{place}: {problem}" for problem in error.problems)
        return
    of = axis.scope.eval_set if axis.scope.category else None
    categories = {name: item_categories(name) if name == of else () for name in map(str, mapping(raw, "eval_sets"))}
    unknown = axes.unknown_part(axis, _levels(raw), categories)
    if unknown:
        yield f"{place}: {text!r}: {unknown}"


def item_categories(eval_set: str) -> list[str]:
    """Those of its items; none where the items cannot be read, which the check of the eval set tells."""
    try:
        lines = (store.EVAL_SETS / eval_set / "items.jsonl").read_text(encoding="utf-8-sig").split("\n")
        rows = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError):
        return []
    found = (row.get("category") for row in rows if isinstance(row, dict))
    return list(dict.fromkeys(name for name in found if isinstance(name, str)))


def _no_ratio(place: str, text: Any) -> Iterator[str]:
    """A score is of ratios, and a difference from the baseline has none."""
    metric = catalogue.BY_NAME.get(str(text).partition("@")[0])
    if metric and metric.versus_baseline and metric.unit != "ratio" and metric.name in axes.METRIC_NAMES:
        yield f"{place}: {text!r}: {metric.name} compares to the baseline, but not by a ratio; give another metric"


def _levels(raw: Mapping[str, Any]) -> dict[str, set[int]]:
    """Numbers of streams that are measured, by workload; none of a workload where that is not told."""
    workloads, sweep = mapping(raw, "benchmark", "workloads"), mapping(raw, "benchmark", "sweep")
    own = {str(name): mapping(workloads, name).get("concurrency", 1) for name in workloads}
    swept = sweep.get("concurrency")
    if not isinstance(swept, list):
        return {name: set() for name in own}
    more = {str(sweep.get("workload")): swept}
    return {
        name: {level for level in (streams, *more.get(name, ())) if isinstance(level, int)}
        for name, streams in own.items()
    }


def _reference_problems(raw: Mapping[str, Any]) -> Iterator[str]:
    variants = list(mapping(raw, "variants"))
    baseline = raw.get("baseline")
    if isinstance(baseline, str) and variants and baseline not in variants:
        yield f"baseline: no variant {baseline!r}; {nearest(baseline, variants)}"
    workloads = list(mapping(raw, "benchmark", "workloads"))
    workload = mapping(raw, "decision").get("workload")
    if isinstance(workload, str) and workloads and workload not in workloads:
        yield f"decision.workload: no workload {workload!r}; {nearest(workload, workloads)}"
    sweep = mapping(raw, "benchmark", "sweep").get("workload")
    if isinstance(sweep, str) and workloads and sweep not in workloads:
        yield f"benchmark.sweep.workload: no workload {sweep!r}; {nearest(sweep, workloads)}"
    pairs: dict[str, tuple[str, str]] = {}
    for variant in map(str, variants):
        for eval_set in map(str, mapping(raw, "eval_sets")):
            first = pairs.setdefault(f"{variant}-{eval_set}", (variant, eval_set))
            if first != (variant, eval_set):
                yield (
                    f"variants.{variant}: with eval set {eval_set!r} it has the same stage name as variant "
                    f"{first[0]!r} with {first[1]!r}; rename one"
                )
