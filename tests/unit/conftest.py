"""A whole project folder with known numbers, without a model."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
import yaml
from synthetic import ENVIRONMENT, EVAL_SET, HEADLINE, MIB, Build

from pipeline import records, store
from pipeline.metrics.evidence import VariantEvidence
from pipeline.params import Params


@pytest.fixture
def build() -> Build:
    return Build(ENVIRONMENT)


RAW_PARAMS: dict[str, Any] = {
    "model": {
        "name": "Tiny",
        "licence": "Apache-2.0",
        "provenance": "made for a test",
        "source": {"kind": "local", "path": "models/tiny"},
    },
    "runtime": {
        "device": "auto",
        "compute_dtype": {"cpu": "bfloat16", "cuda": "float16"},
        "threads": 2,
        "cores": None,
        "waiting": "passive",
        "allocator": "retain",
    },
    "seed": 0,
    "baseline": "fp16",
    "variants": {
        "fp16": {"quantizer": "fp16", "engine": "transformers"},
        "int8": {"quantizer": "bitsandbytes_int8", "engine": "transformers"},
    },
    "benchmark": {
        "pairing": {
            "processes": 3,
            "half_width": 0.03,
            "budget_s": 60,
            "alternation": "auto",
            "load_timeout_s": 120,
            "request_timeout_s": 60,
            "workload_timeout_s": 300,
        },
        "workloads": {
            HEADLINE: {
                "text": "workloads/a.txt",
                "prompt_tokens": 200,
                "output_tokens": 32,
                "concurrency": 1,
                "pairs": 7,
            },
        },
        "sweep": {"workload": HEADLINE, "concurrency": [], "pairs": 1},
    },
    "serving": {
        "objective": {"ttft_s": 0.5, "tpot_s": 0.1},
        "memory_gib": 4.0,
        "price_per_hour": 0.36,
        "currency": "USD",
        "max_spread": 0.25,
    },
    "evaluate": {"batch_size": 8, "invariance_items": 4},
    "eval_sets": {EVAL_SET: {"weight": 1.0}},
    "judge": None,
    "fidelity": {"text": "fidelity/general.txt", "tokens": 8448, "window_tokens": 512},
    "smoke": {"texts": 50, "tokens": 32, "prompts": 5, "kld_max": 5.0, "top1_min": 0.05},
    "gates": {
        "quality-drop": {"metric": "quality_delta", "at_least": -0.08},
        "memory": {"metric": "weight_bytes", "at_most": 1.0, "relative": True},
    },
    "decision": {
        "workload": HEADLINE,
        "profile": "chat",
        "profiles": {
            "chat": {"weights": {"speedup": 1.0}},
            "edge": {"weights": {"peak_memory_bytes": 1.0, "weight_bytes": 1.0}},
        },
        "tie": 0.05,
        "frontier": ["quality", "speedup", "peak_memory_bytes"],
    },
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
            records.save(store.smoke_record(evidence.variant), evidence.smoke)
            records.save(store.speed_record(evidence.variant), evidence.speed)
            records.save(store.fidelity_record(evidence.variant), evidence.fidelity)
            for scored in evidence.quality:
                records.save(store.quality_record(evidence.variant, scored.name), scored.record)
                if scored.items:
                    records.save_items(store.quality_items(evidence.variant, scored.name), scored.items)
        self._scored_as_it_is(params)
        return params

    def _scored_as_it_is(self, params: Params) -> None:
        """Small eval sets, and DVC's note that the variants were scored on them, and made under these params."""
        stages: dict[str, Any] = {}
        for variant in params.variants:
            of_quantize = {"seed": self.raw["seed"], f"variants.{variant}": self.raw["variants"][variant]}
            stages[f"quantize@{variant}"] = {"params": {"params.yaml": of_quantize}}
            for stage in ("smoke", "benchmark", "fidelity"):
                stages[f"{stage}@{variant}"] = {"params": {"params.yaml": {"runtime": self.raw["runtime"]}}}
        for name in params.eval_sets:
            items = b'{"id": "a"}\n'
            store.write_text(store.EVAL_SETS / name / "items.jsonl", items.decode())
            listed = [{"md5": md5(items).hexdigest(), "relpath": "items.jsonl"}]
            noted = {"path": f"eval_sets/{name}", "md5": f"{md5(json.dumps(listed).encode()).hexdigest()}.dir"}
            stages |= {f"evaluate@{variant}-{name}": {"deps": [noted]} for variant in params.variants}
        store.write_text(Path("dvc.lock"), yaml.safe_dump({"schema": "2.0", "stages": stages}))


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
