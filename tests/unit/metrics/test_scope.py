"""A metric of a part equals the metric of evidence that holds no other part."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthetic import CATEGORIES, Build

from pipeline.metrics import pairing
from pipeline.metrics.catalogue import BY_NAME, METRICS
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.scope import WHOLE, Scope, measure, unfit


@pytest.fixture
def variant(build: Build) -> VariantEvidence:
    """Two eval sets and two workloads, one of them at two levels, which all differ."""
    base = build.evidence(scores=[1] * 12)
    speeds = [
        build.workload(tpot_s=0.05),
        build.workload(tpot_s=0.025, concurrency=8),
        build.workload("short-qa", tpot_s=0.1),
    ]
    ours = build.evidence("int8", [1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1], baseline=base)
    return replace(
        ours,
        speed=build.speed("int8", speeds),
        quality=(*ours.quality, build.scored("int8", build.items([1, 0, 0, 0]), "zh-support")),
        baseline=replace(base, quality=(*base.quality, build.scored("fp16", build.items([1] * 4), "zh-support"))),
    )


def test_a_workload_and_a_level(variant: VariantEvidence) -> None:
    speedup = BY_NAME["speedup"]
    assert measure(variant, speedup).value.value == pytest.approx(1)
    assert measure(variant, speedup, Scope("instruction", 8)).value.value == pytest.approx(2)
    slower = measure(variant, speedup, Scope("short-qa"))
    assert slower.value.value == pytest.approx(0.5)
    assert slower.low is not None
    expected = variant.ratio("short-qa", pairing.decode_speedup)
    assert not isinstance(expected, str)
    assert slower.low == expected.low


def test_an_eval_set(variant: VariantEvidence) -> None:
    delta = BY_NAME["quality_delta"]
    assert measure(variant, delta, Scope(eval_set="support-desk")).value.value == pytest.approx(-1 / 12)
    found = measure(variant, delta, Scope(eval_set="zh-support"))
    assert found.value.value == pytest.approx(-0.75)
    assert found.sample is not None
    assert found.sample.count == 4  # type: ignore[attr-defined]


def test_a_category_of_an_eval_set(variant: VariantEvidence, build: Build) -> None:
    lost = build.items([1] * 12)[2].category
    of_lost = sum(item.category == lost for item in build.items([1] * 12))
    for category in CATEGORIES:
        found = measure(variant, BY_NAME["flips_lost"], Scope(eval_set="support-desk", category=category))
        assert found.value.value == (category == lost)
    delta = measure(variant, BY_NAME["quality_delta"], Scope(eval_set="support-desk", category=lost))
    assert delta.value.value == pytest.approx(-1 / of_lost)
    quality = measure(variant, BY_NAME["quality"], Scope(eval_set="support-desk", category=lost))
    assert quality.value.value == pytest.approx(1 - 1 / of_lost)


@pytest.mark.parametrize(
    ("metric", "scope", "reason"),
    [
        ("speedup", Scope("instruction", 3), "the benchmark did not measure instruction at 3 streams"),
        ("quality", Scope(eval_set="other"), "no item of other was scored"),
        (
            "quality_delta",
            Scope(eval_set="support-desk", category="poetry"),
            "no item of support-desk/poetry was scored",
        ),
    ],
)
def test_a_part_that_was_not_measured_is_missing(
    variant: VariantEvidence, metric: str, scope: Scope, reason: str
) -> None:
    assert measure(variant, BY_NAME[metric], scope).value.reason == reason


def test_a_failed_variant_keeps_its_reason(build: Build) -> None:
    failed = replace(build.failed("int8"), baseline=build.evidence())
    assert "out of memory" not in (measure(failed, BY_NAME["speedup"], Scope("instruction", 8)).value.reason or "")
    assert measure(failed, BY_NAME["quality"], Scope(eval_set="support-desk")).value.value is None
    assert measure(failed, BY_NAME["speedup"], Scope("instruction", 8)).value.reason == (
        "benchmark failed: there is no artifact"
    )


def test_the_whole_is_what_the_table_has(variant: VariantEvidence) -> None:
    for metric in METRICS:
        assert measure(variant, metric, WHOLE).value == metric.compute(variant)


@pytest.mark.parametrize(
    ("metric", "scope", "problem"),
    [
        ("speedup", Scope("instruction", 8), None),
        ("quality_delta", Scope(eval_set="a", category="b"), None),
        ("over_context_items", Scope(eval_set="a"), None),
        ("speedup", Scope(concurrency=8), "concurrency: give the workload that it is of"),
        ("quality", Scope(category="b"), "category: give the eval_set that it is of"),
        ("quality", Scope("instruction"), "workload: quality is not of one workload"),
        ("speedup", Scope(eval_set="a"), "eval_set: speedup is not of one eval set"),
        (
            "over_context_items",
            Scope(eval_set="a", category="b"),
            "category: over_context_items is not of one category",
        ),
        ("weight_bytes", Scope("instruction"), "workload: weight_bytes is not of one workload"),
    ],
)
def test_what_a_metric_cannot_be_asked_of(metric: str, scope: Scope, problem: str | None) -> None:
    assert unfit(BY_NAME[metric], scope) == problem


def test_a_scope_in_words() -> None:
    assert str(Scope("instruction", 1)) == "instruction at 1 stream"
    assert str(Scope("instruction")) == "instruction"
    assert str(Scope(eval_set="support-desk", category="intent")) == "support-desk/intent"
    assert str(WHOLE) == ""
