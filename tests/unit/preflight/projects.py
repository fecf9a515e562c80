"""A project in which nothing is wrong, as a dict to change and as files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pipeline import checkpoint, params
from pipeline.artifact_records import BaseModelInfo
from pipeline.params import Params

CALIBRATION = {"set": "plain", "samples": 2}
PARAMS: dict[str, Any] = {
    "model": {"name": "tiny", "licence": "Apache-2.0", "source": {"kind": "local", "path": "model"}},
    "runtime": {
        "device": "cpu",
        "compute_dtype": {"cpu": "bfloat16", "cuda": "float16"},
        "threads": 1,
        "cores": None,
        "waiting": "passive",
        "allocator": "default",
    },
    "seed": 0,
    "baseline": "fp16",
    "variants": {
        "fp16": {"quantizer": "fp16", "engine": "transformers"},
        "int8": {"quantizer": "bitsandbytes_int8", "engine": "transformers"},
        "int4": {
            "quantizer": "gptqmodel_gptq",
            "engine": "transformers",
            "settings": {"group_size": 64, "calibration": CALIBRATION},
        },
    },
    "benchmark": {
        "pairing": {
            "processes": 3,
            "half_width": 0.03,
            "budget_s": 0,
            "alternation": "auto",
            "load_timeout_s": 120,
            "request_timeout_s": 60,
            "workload_timeout_s": 60,
        },
        "workloads": {"short": {"text": "text.txt", "prompt_tokens": 8, "output_tokens": 4, "pairs": 5}},
        "sweep": {"workload": "short", "concurrency": [1, 2], "pairs": 1},
    },
    "serving": {"objective": {"ttft_s": 1.0, "tpot_s": 0.1}, "memory_gib": 1.0},
    "evaluate": {"batch_size": 2, "invariance_items": 0},
    "eval_sets": {"colours": {"weight": 1.0}},
    "judge": None,
    "fidelity": {"text": "corpus.txt", "tokens": 512, "window_tokens": 256},
    "smoke": {"texts": 10, "tokens": 32, "prompts": 2, "kld_max": 3.0, "top1_min": 0.2},
    "gates": {},
    "decision": {
        "workload": "short",
        "profile": "edge",
        "profiles": {"edge": {"weights": {"weight_bytes": 1.0}}},
        "frontier": ["quality", "speedup", "peak_memory_bytes"],
    },
}


def settings(variants: dict[str, Any] | None = None, **changes: Any) -> Params:
    """The project's params with variants replaced or added, and other sections changed."""
    return params.parse(PARAMS | {"variants": PARAMS["variants"] | (variants or {})} | changes)


def complete(folder: Path, source: Path) -> None:
    """Make the folder a complete artifact with the source's files."""
    shutil.copytree(source, folder)
    checkpoint.write_manifest(
        folder,
        name="x",
        base=BaseModelInfo(name="x", source="x", revision="x", licence="x", provenance="x"),
        quantizer=None,
        settings={},
        packages={},
        format="safetensors",
        parameters=1,
        quantized_modules=[],
    )
