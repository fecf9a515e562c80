"""Draws of a world as evidence, and the verdicts of the report's own code on them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from _truth_worlds import HALF_WIDTH, Category, Quality, Rng, Speed, Variant, World

from pipeline import store
from pipeline.metrics import pairing
from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.evidence import ScoredSet, VariantEvidence
from pipeline.params import Gate, Params
from pipeline.quality_records import FinishReason, ItemResult
from pipeline.readings import PairReading, RequestReading
from pipeline.records import Interval, Verdict, missing
from pipeline.report import decision, gates
from pipeline.report.rows import Row

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

import synthetic  # noqa: E402

BUILD = synthetic.Build(synthetic.ENVIRONMENT)
BASELINE = "fp16"
PICK = "the pick"
EVERY = "all gates"
CLOSE = 1e-9


class Truth(StrEnum):
    MEETS = "meets"
    AT_BOUND = "at the bound"
    VIOLATES = "violates"


@dataclass(frozen=True)
class Known:
    """A gate and what is true of it, given the world and, for the items that were asked, the draw."""

    gate: Gate
    truth: Callable[[Variant, VariantEvidence], Truth]


@dataclass(frozen=True)
class Judged:
    """One verdict on one draw of one variant."""

    variant: str
    gate: str
    truth: Truth
    verdict: Verdict


def _above(value: float | None, bound: float) -> Truth:
    """None: this world is not about it, so the variant is as the baseline."""
    if value is None:
        return Truth.MEETS
    if abs(value - bound) <= CLOSE:
        return Truth.AT_BOUND
    return Truth.MEETS if value > bound else Truth.VIOLATES


def _drop(points: float) -> Known:
    gate = Gate(metric="quality_delta", at_least=-points / 100)
    return Known(gate, lambda variant, _: _above(variant.quality.delta if variant.quality else None, -points / 100))


def _worst(points: float) -> Known:
    gate = Gate(metric="worst_category_delta", at_least=-points / 100)
    return Known(gate, lambda variant, _: _above(variant.quality.worst if variant.quality else None, -points / 100))


def _speedup(bound: float) -> Known:
    gate = Gate(metric="speedup", at_least=bound)
    return Known(gate, lambda variant, _: _above(variant.speed.ratio if variant.speed else None, bound))


def _no_critical_item_lost(_: Variant, evidence: VariantEvidence) -> Truth:
    """The gate is about these very items, so the truth is in the draw."""
    assert evidence.baseline is not None
    before = {item.item_id: item for scored in evidence.baseline.quality for item in scored.items}
    ours = (item for scored in evidence.quality for item in scored.items if item.critical)
    lost = any(before[item.item_id].passed and not item.passed for item in ours)
    return Truth.VIOLATES if lost else Truth.MEETS


GATES: Mapping[str, Known] = {
    "drop ≤ 2": _drop(2),
    "drop ≤ 8": _drop(8),
    "worst ≤ 5": _worst(5),
    "worst ≤ 8": _worst(8),
    "speed ≥ 1.3": _speedup(1.3),
    "critical": Known(Gate(metric="critical_regressions", at_most=0), _no_critical_item_lost),
}


def judge(world: World, rng: Rng) -> list[Judged]:
    """Draw every variant of the world once and judge it; a world of several variants is also decided as a release."""
    if len(world.variants) == 1:
        [variant] = world.variants
        evidence = draw(variant, rng)
        row, baseline = rows(evidence)
        found = []
        for name in world.gates:
            verdict = gates.judge(name, GATES[name].gate, row, baseline).verdict
            found.append(Judged(variant.name, name, GATES[name].truth(variant, evidence), verdict))
        return found
    return list(_release(world, rng))


def _release(world: World, rng: Rng) -> Iterator[Judged]:
    """The real decision over all variants; the overall verdict of each, and the pick.

    The pick PASSes. A release without one counts as FAIL where a variant meets every gate, and else as no wrong: the
    baseline is left out as a candidate, since it does not meet the speed-up.
    """
    drawn = [draw(variant, rng, variant.name) for variant in world.variants]
    baseline = drawn[0].baseline
    assert baseline is not None
    found = decision.decide(release_params(world), [_row(baseline), *map(_row, drawn)], "0" * 64)
    verdicts = {each.variant: each.verdict for each in found.variants}
    truths = {v.name: overall(world, v, evidence) for v, evidence in zip(world.variants, drawn, strict=True)}
    for name, truth in truths.items():
        yield Judged(name, EVERY, truth, verdicts[name])
    if found.pick:
        yield Judged(PICK, EVERY, truths[found.pick], Verdict.PASS)
    else:
        open_still = Verdict.UNDECIDED in verdicts.values()
        best = Truth.MEETS if Truth.MEETS in truths.values() else Truth.VIOLATES
        yield Judged(PICK, EVERY, best, Verdict.UNDECIDED if open_still else Verdict.FAIL)


def overall(world: World, variant: Variant, evidence: VariantEvidence) -> Truth:
    """A variant meets all gates, or violates one of them, or else is at a bound."""
    if variant.rejected:
        return Truth.VIOLATES
    found = {GATES[name].truth(variant, evidence) for name in world.gates}
    return next(truth for truth in (Truth.VIOLATES, Truth.AT_BOUND, Truth.MEETS) if truth in found)


@cache
def release_params(world: World) -> Params:
    """The project's params with the variants of the world and its gates."""
    raw = yaml.safe_load((ROOT / store.PARAMS).read_text(encoding="utf-8"))
    raw["baseline"] = BASELINE
    raw["variants"] = {
        name: {"quantizer": "fp16", "engine": "transformers"} for name in (BASELINE, *(v.name for v in world.variants))
    }
    raw["gates"] = {name: GATES[name].gate.model_dump(exclude_defaults=True) for name in world.gates}
    raw["decision"]["workload"] = synthetic.HEADLINE
    return Params.model_validate(raw)


def rows(evidence: VariantEvidence) -> tuple[Row, Row]:
    """Of the variant and of its baseline."""
    assert evidence.baseline is not None
    return _row(evidence), _row(evidence.baseline)


class _Computed(Mapping[str, Any]):
    """One entry for each metric, computed when it is asked for: a gate needs few of the catalogue."""

    def __init__(self, compute: Callable[[str], Any]) -> None:
        self._compute = cache(compute)

    def __getitem__(self, name: str) -> Any:
        return self._compute(name)

    def __iter__(self) -> Iterator[str]:
        return iter(BY_NAME)

    def __len__(self) -> int:
        return len(BY_NAME)


def _row(evidence: VariantEvidence) -> Row:
    return Row(
        variant=evidence.variant,
        engine="transformers",
        status=evidence.status,
        reason=evidence.reason,
        is_baseline=evidence.is_baseline,
        artifact_sha256=evidence.artifact_sha256,
        readings=_Computed(lambda name: BY_NAME[name].compute(evidence)),
        kernel_note="",
        on_frontier=False,
        dominated_by=(),
        evidence=evidence,
    )


# --- evidence --------------------------------------------------------------------------------------------------


@cache
def _template(name: str) -> VariantEvidence:
    """Valid records of every stage; what is drawn replaces their items and turns."""
    found: VariantEvidence = BUILD.evidence(name)
    return found


def draw(variant: Variant, rng: Rng, name: str = "variant") -> VariantEvidence:
    """The variant's evidence, and its baseline's with it."""
    baseline = _template(BASELINE)
    if variant.rejected:
        collapsed: VariantEvidence = BUILD.collapsed(name)
        return replace(collapsed, baseline=baseline)
    found = replace(_template(name), baseline=baseline)
    if variant.speed:
        workload = found.speed.workloads[0].model_copy(update={"pairs": pairs(variant.speed, rng)})
        found = replace(found, speed=found.speed.model_copy(update={"workloads": [workload]}))
    if variant.quality:
        ours, theirs = scored(variant.quality, rng)
        found = replace(found, quality=ours, baseline=replace(baseline, quality=theirs))
    return found


def pairs(speed: Speed, rng: Rng) -> list[PairReading]:
    """As many pairs of processes as the benchmark stage would measure, by its own rule."""
    found: list[PairReading] = []
    for process in range(speed.most_processes):
        found += [_pair(process, ratio) for ratio in speed.draw(rng)]
        if process + 1 >= speed.processes and _is_precise(found):
            break
    return found


def _is_precise(found: list[PairReading]) -> bool:
    speedup = pairing.decode_speedup(found, 0)
    width = None if isinstance(speedup, str) else speedup.half_width().value
    return width is not None and width <= HALF_WIDTH


def _pair(process: int, ratio: float) -> PairReading:
    return PairReading.model_construct(
        process=process, variant_first=True, variant=_request(ratio), baseline=_request(1.0)
    )


def _request(rate: float) -> RequestReading:
    """32 tokens, the first after 0.1 s, at this many times 20 tokens/s."""
    return RequestReading.model_construct(token_s=[0.1 + 0.05 * place / rate for place in range(32)])


def scored(quality: Quality, rng: Rng) -> tuple[tuple[ScoredSet, ...], tuple[ScoredSet, ...]]:
    """The variant's eval sets and the baseline's."""
    ours, theirs = [], []
    for number, (weight, categories) in enumerate(quality.sets):
        mine: list[ItemResult] = []
        base: list[ItemResult] = []
        for place, category in enumerate(categories):
            for items, scores in zip((mine, base), category.draw(rng), strict=True):
                items += _items(f"set-{number}", f"category-{place}", category, scores.tolist())
        ours.append(_scored(f"set-{number}", weight, mine))
        theirs.append(_scored(f"set-{number}", weight, base))
    return tuple(ours), tuple(theirs)


def _items(eval_set: str, name: str, category: Category, scores: list[float]) -> Iterator[ItemResult]:
    for place, score in enumerate(scores):
        document = f"{name}-{place // category.cluster}" if category.cluster > 1 else None
        yield ItemResult.model_construct(
            item_id=f"{eval_set}-{name}-{place:04}",
            category=name,
            critical=place < category.critical,
            cluster=document,
            weight=category.weight,
            prompt_sha256="",
            prompt="",
            target="",
            output="",
            score=score,
            passed=score == 1,
            finish_reason=FinishReason.STOP,
            flaw=None,
            output_tokens=1,
            choice_logprobs=None,
        )


@cache
def _record(name: str) -> Any:
    return BUILD.scored("variant", BUILD.items([1, 0]), name).record


def _scored(name: str, weight: float, items: list[ItemResult]) -> ScoredSet:
    """No gate here asks for the interval of one side's own score, so it is left out."""
    mean = sum(item.score for item in items) / len(items)
    nothing = missing("not computed in the simulation")
    overall = Interval(n=len(items), mean=mean, ci_low=nothing, ci_high=nothing)
    return ScoredSet(_record(name).model_copy(update={"overall": overall}), tuple(items), weight)
