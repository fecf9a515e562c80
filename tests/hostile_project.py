"""Records that a report page has to withstand: hostile answers, failures, missing values, long names, many flips."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from synthetic import EVAL_SET, MIB, Build

from pipeline.metrics.evidence import ScoredSet, VariantEvidence
from pipeline.quality_records import FinishReason, ItemResult, QualityRecord
from pipeline.records import Status, missing

CHINESE_SET = "zh-support"
LONG = "int4-gptq-group-size-64-desc-act-false-calibrated-on-sixteen-samples"
ATTACKS = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    "<!-- <script> -->",
    '"><img src=x onerror="window.hacked = 1">',
    "line\u2028separator\u2029and \u202eturned",
    "{{ 7 * 7 }} ${window.hacked = 1}",
)
LOST, WON = 300, 12
ITEMS = 400


def with_two_sets(raw: dict[str, Any]) -> dict[str, Any]:
    raw["eval_sets"] = {EVAL_SET: {"weight": 1.0}, CHINESE_SET: {"weight": 1.0}}
    return raw


def variants(build: Build) -> list[VariantEvidence]:
    """fp16; int8 that flips many items; one with a long name and no peak memory; one that failed."""
    fp16 = _scored(build, build.evidence("fp16"), lost=0, won=0)
    int8 = _scored(
        build, build.evidence("int8", tpot_s=0.2, weight_bytes=160 * MIB, peak_bytes=950 * MIB), lost=LOST, won=WON
    )
    long = _scored(build, build.evidence(LONG, tpot_s=0.04, weight_bytes=90 * MIB), lost=3, won=0)
    return [fp16, int8, _without_peaks(long), _failed(build, "int4-awq")]


def _scored(build: Build, evidence: VariantEvidence, lost: int, won: int) -> VariantEvidence:
    """The first items are lost, those at the end, which the baseline fails, are won."""
    failing = range(ITEMS - WON, ITEMS)
    items = [_item(build, n, passed=n >= lost and (n not in failing or n < ITEMS - WON + won)) for n in range(ITEMS)]
    chinese = [_chinese(build, n, passed=n >= 2 or lost == 0) for n in range(10)]
    name = evidence.variant
    return replace(evidence, quality=(build.scored(name, items), build.scored(name, chinese, CHINESE_SET)))


def _item(build: Build, number: int, *, passed: bool) -> ItemResult:
    attack = ATTACKS[number % len(ATTACKS)]
    right = f"The parcel {number} comes on Monday by the ordinary post."
    wrong = f"The parcel {number} never comes by the ordinary post. {attack}"
    return build.item(
        f"item-{number:03}",
        float(passed),
        output=right if passed else wrong,
        prompt=f"Where is parcel {number}? {attack}",
        target={"answer": f"Monday {attack}"},
        critical=number % 50 == 7,
        finish_reason=FinishReason.STOP if passed else FinishReason.LENGTH,
    )


def _chinese(build: Build, number: int, *, passed: bool) -> ItemResult:
    return build.item(
        f"zh-{number:03}",
        float(passed),
        category="配送",
        output="包裹星期一到" if passed else "包裹星期五到",
        prompt="包裹什么时候到？",
        target="包裹星期一到",
    )


def _without_peaks(evidence: VariantEvidence) -> VariantEvidence:
    processes = [
        process.model_copy(
            update={"peaks": [peak.model_copy(update={"peak_bytes": missing("not read")}) for peak in process.peaks]}
        )
        for process in evidence.speed.processes
    ]
    return replace(evidence, speed=evidence.speed.model_copy(update={"processes": processes}))


def _failed(build: Build, name: str) -> VariantEvidence:
    evidence = build.failed(name, f"out of memory {ATTACKS[1]}")
    lost = QualityRecord(variant=name, status=Status.FAILED, reason="there is no artifact", eval_set=CHINESE_SET)
    return replace(evidence, quality=(*evidence.quality, ScoredSet(lost, (), 1)))
