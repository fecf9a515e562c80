"""Synthetic records: a whole project folder with known numbers, without a model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline import records, store
from pipeline.metrics import intervals
from pipeline.metrics.evidence import ScoredSet, VariantEvidence
from pipeline.params import Params
from pipeline.records import (
    BaseModelInfo,
    EngineInfo,
    Environment,
    FinishReason,
    ItemResult,
    MemoryReadings,
    QualityRecord,
    QuantizeRecord,
    RequestReading,
    SpeedRecord,
    Status,
    WorkloadReadings,
    known,
    missing,
)

MIB = 2**20
HEADLINE = "instruction"
EVAL_SET = "support-desk"
CATEGORIES = ("intent", "extraction", "policy")


@dataclass(frozen=True)
class Build:
    """Builders of records; every argument has a plausible value."""

    environment: Environment

    def item(self, item_id: str, score: float, **changes: Any) -> ItemResult:
        fields: dict[str, Any] = {
            "item_id": item_id,
            "category": CATEGORIES[sum(map(ord, item_id)) % len(CATEGORIES)],
            "critical": False,
            "prompt_sha256": store.sha256_text(item_id),
            "prompt": f"Question {item_id}: which topic is this?",
            "target": {"answer": "delivery", "choices": ["delivery", "invoice"]},
            "output": "delivery" if score == 1 else "invoice",
            "score": score,
            "passed": score == 1,
            "finish_reason": FinishReason.STOP,
            "output_tokens": 3,
        }
        return ItemResult(**(fields | changes))

    def items(self, scores: Sequence[float]) -> tuple[ItemResult, ...]:
        return tuple(self.item(f"item-{place:03}", score) for place, score in enumerate(scores))

    def engine(self, **changes: Any) -> EngineInfo:
        fields: dict[str, Any] = {
            "name": "transformers",
            "packages": {"torch": "2.13.0", "transformers": "5.9.0"},
            "device": "cpu",
            "device_name": "CPU",
            "compute_dtype": "bfloat16",
            "threads": 2,
            "kernels": {"Linear": 210},
            "attention": "sdpa",
        }
        return EngineInfo(**(fields | changes))

    def scored(
        self, variant: str, items: Sequence[ItemResult], eval_set: str = EVAL_SET, weight: float = 1, **changes: Any
    ) -> ScoredSet:
        names = dict.fromkeys(item.category for item in items)
        fields: dict[str, Any] = {
            "variant": variant,
            "status": Status.OK,
            "eval_set": eval_set,
            "eval_set_version": "1.0.0",
            "eval_set_sha256": store.sha256_text(eval_set),
            "artifact_sha256": store.sha256_text(variant),
            "engine": self.engine(),
            "decoding": {"method": "greedy"},
            "overall": intervals.mean_interval([item.score for item in items], 0),
            "categories": {
                name: intervals.mean_interval([item.score for item in items if item.category == name], 0)
                for name in names
            },
            "finish_reasons": {FinishReason.STOP: len(items) - 1, FinishReason.LENGTH: 1},
            "empty_outputs": 0,
            "wall_s": 30.0,
        }
        return ScoredSet(QualityRecord(**(fields | changes)), tuple(items), weight)

    def workload(
        self, name: str = HEADLINE, ttft_s: float = 0.1, tpot_s: float = 0.05, repeats: int = 20, **changes: Any
    ) -> WorkloadReadings:
        """Repeats alike; each has 32 tokens."""
        fields: dict[str, Any] = {
            "workload": name,
            "prompt_tokens": 200,
            "output_tokens": 32,
            "prompt_sha256": store.sha256_text(name),
            "warmup": 2,
            "requests": [RequestReading(token_s=[ttft_s + tpot_s * n for n in range(32)])] * repeats,
            "prefill_s": [0.9 * ttft_s] * repeats,
        }
        return WorkloadReadings(**(fields | changes))

    def speed(
        self, variant: str, workloads: Sequence[WorkloadReadings] = (), peak_bytes: int = 900 * MIB, **changes: Any
    ) -> SpeedRecord:
        fields: dict[str, Any] = {
            "variant": variant,
            "status": Status.OK,
            "artifact_sha256": store.sha256_text(variant),
            "engine": self.engine(),
            "environment_sha256": store.sha256_text(store.to_json(self.environment.model_dump(mode="json"))),
            "seed": 0,
            "load_s": 1.5,
            "workloads": list(workloads) or [self.workload()],
            "memory": MemoryReadings(
                weight_bytes=known(257 * MIB),
                process_load_peak_bytes=known(peak_bytes),
                process_run_peak_bytes=known(peak_bytes),
                allocator_peak_bytes=missing("no CUDA device"),
                allocator_reserved_peak_bytes=missing("no CUDA device"),
                nvml_process_bytes=missing("no CUDA device"),
            ),
        }
        return SpeedRecord(**(fields | changes))

    def quantize(self, variant: str, weight_bytes: int = 257 * MIB, **changes: Any) -> QuantizeRecord:
        fields: dict[str, Any] = {
            "variant": variant,
            "status": Status.OK,
            "quantizer": "fp16",
            "base": BaseModelInfo(
                name="Tiny", source="here", revision="abc123", licence="Apache-2.0", provenance="made for a test"
            ),
            "tokenizer_sha256": store.sha256_text("tokenizer"),
            "artifact_sha256": store.sha256_text(variant),
            "weight_bytes": weight_bytes,
            "bits_per_weight": 16 * weight_bytes / (257 * MIB),
            "wall_s": 12.0,
            "peak_process_bytes": known(500 * MIB),
        }
        return QuantizeRecord(**(fields | changes))

    def evidence(
        self,
        variant: str = "fp16",
        scores: Sequence[float] = (1, 1, 1, 0),
        *,
        baseline: VariantEvidence | None = None,
        tpot_s: float = 0.05,
        weight_bytes: int = 257 * MIB,
        peak_bytes: int = 900 * MIB,
    ) -> VariantEvidence:
        return VariantEvidence(
            variant=variant,
            quantize=self.quantize(variant, weight_bytes),
            speed=self.speed(variant, [self.workload(tpot_s=tpot_s)], peak_bytes),
            quality=(self.scored(variant, self.items(scores)),),
            headline=HEADLINE,
            baseline=baseline,
        )

    def failed(self, variant: str, reason: str = "out of memory") -> VariantEvidence:
        """Quantizing failed, and what came after had nothing to work on."""
        lost: dict[str, Any] = {"variant": variant, "status": Status.FAILED}
        after = "there is no artifact"
        return VariantEvidence(
            variant=variant,
            quantize=QuantizeRecord(
                **lost, reason=reason, quantizer="fp16", wall_s=3.0, peak_process_bytes=missing("the process died")
            ),
            speed=SpeedRecord(**lost, reason=after),
            quality=(ScoredSet(QualityRecord(**lost, reason=after, eval_set=EVAL_SET), (), 1),),
            headline=HEADLINE,
        )


@pytest.fixture
def build() -> Build:
    return Build(
        Environment(
            os="Linux 6.1",
            python="3.11.9",
            cpu="Some CPU",
            cpu_cores=2,
            memory_bytes=8 * 2**30,
            gpus=[],
            gpu_reason="no NVIDIA driver",
            packages={"torch": "2.13.0"},
        )
    )


RAW_PARAMS: dict[str, Any] = {
    "model": {
        "name": "Tiny",
        "licence": "Apache-2.0",
        "provenance": "made for a test",
        "source": {"kind": "local", "path": "models/tiny"},
    },
    "runtime": {"device": "auto", "compute_dtype": {"cpu": "bfloat16", "cuda": "float16"}, "threads": 2},
    "seed": 0,
    "baseline": "fp16",
    "variants": {
        "fp16": {"quantizer": "fp16", "engine": "transformers"},
        "int8": {"quantizer": "bitsandbytes_int8", "engine": "transformers"},
    },
    "benchmark": {
        "workloads": {
            HEADLINE: {"text": "workloads/a.txt", "prompt_tokens": 200, "output_tokens": 32, "repeats": 20},
        }
    },
    "evaluate": {"batch_size": 8},
    "eval_sets": {EVAL_SET: {"weight": 1.0}},
    "gates": {
        "quality-drop": {"metric": "quality_delta", "at_least": -0.08},
        "memory": {"metric": "weight_bytes", "at_most": 1.0, "relative": True},
    },
    "decision": {"workload": HEADLINE, "prefer": ["decode_tokens_per_s", "weight_bytes", "quality"], "tie": 0.05},
}


@pytest.fixture
def raw_params() -> dict[str, Any]:
    """Valid params as they stand in the file; the test may change its copy."""
    return copy.deepcopy(RAW_PARAMS)


def with_variants(raw: dict[str, Any], names: Sequence[str]) -> Params:
    raw["variants"] = dict.fromkeys(names, raw["variants"]["fp16"])
    return Params.model_validate(raw)


@dataclass(frozen=True)
class Project:
    """A project folder that holds the records of some variants; it is the working directory."""

    folder: Path
    build: Build
    raw: dict[str, Any]

    def write(self, *variants: VariantEvidence) -> Params:
        """Write params.yaml and all records. The first variant is the baseline."""
        params = with_variants(self.raw, [evidence.variant for evidence in variants])
        store.write_text(store.PARAMS, yaml.safe_dump(self.raw, sort_keys=False))
        records.save(store.ENVIRONMENT, self.build.environment)
        for evidence in variants:
            records.save(store.quantize_record(evidence.variant), evidence.quantize)
            records.save(store.speed_record(evidence.variant), evidence.speed)
            for scored in evidence.quality:
                records.save(store.quality_record(evidence.variant, scored.name), scored.record)
                if scored.items:
                    records.save_items(store.quality_items(evidence.variant, scored.name), scored.items)
        return params


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Build, raw_params: dict[str, Any]) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, build, raw_params)


@pytest.fixture
def four_variants(build: Build) -> list[VariantEvidence]:
    """A baseline, a slower variant, a faster and smaller one that loses 3 of 120 items, and one that failed."""
    scores = [1.0] * 72 + [0.0] * 48
    fp16 = build.evidence("fp16", scores)
    int8 = build.evidence("int8", [0.0, *scores[1:]], tpot_s=0.2, weight_bytes=160 * MIB, peak_bytes=950 * MIB)
    int4 = build.evidence("int4-gptq", [0.0] * 3 + scores[3:], tpot_s=0.04, weight_bytes=90 * MIB, peak_bytes=600 * MIB)
    return [fp16, int8, int4, build.failed("int4-awq")]
