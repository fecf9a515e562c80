"""What a schema cannot say of the gates in params.yaml: names that point nowhere, parts that were not measured, and
bounds that cannot be meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline import gate_bounds
from pipeline.errors import nearest
from pipeline.metrics import display, scope
from pipeline.metrics.catalogue import BY_NAME, METRICS
from pipeline.metrics.metric import Metric, Narrows
from pipeline.metrics.scope import Scope
from pipeline.params_checks import item_categories, mapping

BOUNDS = ("at_least", "at_most")
_FEW_BYTES = 1024
_MANY_TIMES = 100
_SIZES = frozenset({"s", "bytes", "items", "tokens/s", "requests/s", "streams", "ratio", "nats", "currency", "bits"})
"""Units of what is never below 0."""


def problems(raw: Mapping[str, Any]) -> Iterator[str]:
    """Every such mistake in the gates of params.yaml; parts that are of a wrong kind are left to the schema."""
    for name in mapping(raw, "gates"):
        gate, place = mapping(raw, "gates", name), f"gates.{name}"
        metric = BY_NAME.get(str(gate.get("metric")))
        if isinstance(gate.get("metric"), str) and metric is None:
            known = [each.name for each in METRICS]
            yield f"{place}.metric: no metric {gate['metric']!r}; {nearest(gate['metric'], known)}"
        if gate and sum(gate.get(bound) is not None for bound in BOUNDS) != 1:
            yield f"{place}: give exactly one of at_least and at_most"
        for problem in [*_part_problems(raw, gate, metric), *_bound_problems(raw, gate, metric)]:
            yield f"{place}.{problem}"


# --- what it is of ---------------------------------------------------------------------------------------------


def _part_problems(raw: Mapping[str, Any], gate: Mapping[str, Any], metric: Metric | None) -> Iterator[str]:
    part = Scope(*(_of_kind(gate.get(key), kind) for key, kind in _PART.items()))
    problem = scope.unfit(metric, part) if metric else None
    if problem:
        yield problem
    workloads, eval_sets = mapping(raw, "benchmark", "workloads"), mapping(raw, "eval_sets")
    if part.workload is not None and part.workload not in workloads:
        yield f"workload: no workload {part.workload!r}; {nearest(part.workload, list(workloads))}"
    elif part.workload is not None and part.concurrency is not None:
        yield from _level_problems(raw, part.workload, part.concurrency)
    if part.eval_set is not None and part.eval_set not in eval_sets:
        yield f"eval_set: no eval set {part.eval_set!r}; {nearest(part.eval_set, list(eval_sets))}"
    elif part.eval_set is not None and part.category is not None:
        yield from _category_problems(part.eval_set, part.category)


_PART: Mapping[str, type] = {"workload": str, "concurrency": int, "eval_set": str, "category": str}


def _of_kind(value: Any, kind: type) -> Any:
    return value if isinstance(value, kind) else None


def _level_problems(raw: Mapping[str, Any], workload: str, concurrency: int) -> Iterator[str]:
    """That the benchmark does not measure the workload so: neither by itself nor in the sweep."""
    sweep = mapping(raw, "benchmark", "sweep")
    swept = sweep.get("concurrency") if sweep.get("workload") == workload else None
    own = mapping(raw, "benchmark", "workloads", workload).get("concurrency", 1)
    measured = [own, *(swept if isinstance(swept, list) else [])]
    if concurrency not in measured:
        levels = ", ".join(map(str, sorted({level for level in measured if isinstance(level, int)})))
        yield (
            f"concurrency: {workload} is measured at {levels}, not at {concurrency}; name one of these, or add it to "
            "benchmark.sweep.concurrency of the swept workload"
        )


def _category_problems(eval_set: str, category: str) -> Iterator[str]:
    """That no item is of it."""
    known = item_categories(eval_set)
    if known and category not in known:
        yield f"category: no item of {eval_set} is of category {category!r}; {nearest(category, known)}"


# --- its bound -------------------------------------------------------------------------------------------------


def _bound_problems(raw: Mapping[str, Any], gate: Mapping[str, Any], metric: Metric | None) -> Iterator[str]:
    if metric is None:
        return
    if gate.get("relative") is True:
        yield from _relative_problems(metric)
    given = [key for key in BOUNDS if gate.get(key) is not None]
    if len(given) != 1:
        return
    [key] = given
    yield from _direction_problems(metric, key)
    bound = _amount(gate[key], metric)
    if bound is not None and gate.get("relative") is True:
        yield from (f"{key}: {problem}" for problem in _multiple_problems(gate[key]))
    elif bound is not None and gate.get("relative", False) is False:
        for problem in _size_problems(raw, metric, bound):
            yield f"{key}: {problem}"


def _amount(given: Any, metric: Metric) -> float | None:
    """The bound in the metric's unit; None where the schema refuses it."""
    if isinstance(given, str):
        try:
            return gate_bounds.parse(given, metric.name, relative=False)
        except ValueError:
            return None
    return given if isinstance(given, int | float) else None


def _relative_problems(metric: Metric) -> Iterator[str]:
    """A multiple of what is 0 or 1 by definition, or of what is also compared with the baseline in pairs."""
    if metric.versus_baseline:
        yield f"relative: {metric.name} is relative to the baseline already; give the bound itself"
    if metric.paired:
        better = "higher" if BY_NAME[metric.paired].higher_is_better else "lower"
        yield (
            f"relative: the ratio of two values of {metric.name} has no interval; give a bound on "
            f"{metric.paired} instead, for which variant and baseline are paired ({better} is better)"
        )


def _direction_problems(metric: Metric, key: str) -> Iterator[str]:
    """A bound on the good side refuses what is better than wanted: most often a drop that was meant as at least -x."""
    wanted = {True: "at_least", False: "at_most", None: key}[metric.higher_is_better]
    if key == wanted:
        return
    better = "higher" if metric.higher_is_better else "lower"
    drop = "; a drop of 2 points at most is at_least: -0.02" if _is_difference(metric) else ""
    yield f"{key}: {better} is better for {metric.name}, so give {wanted}{drop}"


def _size_problems(raw: Mapping[str, Any], metric: Metric, bound: float) -> Iterator[str]:
    """Amounts that are most likely meant in another unit."""
    if metric.unit == "share" and abs(bound) > 1:
        meant = bound if abs(bound) <= 100 else 8
        points = f"{meant:g} points are {meant / 100:g} or `{meant:g} pp`"
        yield f"{metric.name} is a share, so {bound:g} is out of reach; {points}"
    elif metric.unit == "share" and bound < 0 and not _is_difference(metric):
        yield f"{metric.name} is a share of 0 to 1, so {bound:g} says nothing"
    if metric.unit == "ratio" and bound > _MANY_TIMES:
        yield f"{metric.name} is a multiple, and {bound:g} times is out of reach; 30 % more is 1.3"
    if metric.unit == "bytes" and 0 < bound < _FEW_BYTES:
        yield f"{metric.name} is in bytes, and {bound:g} of them are next to none; give a unit, as in `{bound:g} GiB`"
    if metric.unit in _SIZES and bound < 0:
        yield f"{metric.name} is never below 0, so {bound:g} says nothing"
    longest = mapping(raw, "benchmark", "pairing").get("request_timeout_s")
    if _is_time(metric) and isinstance(longest, int) and bound >= longest:
        yield (
            f"{metric.name} is in seconds, and no request goes on for {longest} (benchmark.pairing.request_timeout_s); "
            f"write the unit, as in `{bound:g} ms`"
        )


def _multiple_problems(bound: Any) -> Iterator[str]:
    if not isinstance(bound, int | float) or isinstance(bound, bool):
        return
    if bound <= 0:
        yield f"a relative bound is a multiple of the baseline's value, so {bound:g} says nothing; give one above 0"
    if bound > _MANY_TIMES:
        yield f"a relative bound is a multiple of the baseline's value, and {bound:g} times is out of reach"


def _is_difference(metric: Metric) -> bool:
    """Of two shares, so that it may be below 0."""
    return metric.display is display.points


def _is_time(metric: Metric) -> bool:
    """Of a single request."""
    return metric.unit == "s" and metric.narrows is Narrows.WORKLOAD
