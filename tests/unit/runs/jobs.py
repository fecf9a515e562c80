"""Jobs of the test project; see conftest.py beside this."""

from __future__ import annotations

from typing import Any

from pipeline import processes
from pipeline.levels import Sweep
from pipeline.runs import base, benchmark, prompts, quantize, reference, smoke

DTYPES = {"cpu": "float32", "cuda": "float16"}


def base_job(**changes: Any) -> base.Job:
    fields: dict[str, Any] = {
        "name": "tiny",
        "licence": "Apache-2.0",
        "provenance": "random weights",
        "kind": "local",
        "source": {"path": "model"},
    }
    return base.Job(**(fields | changes))


def fidelity_text(**changes: Any) -> prompts.FidelityJob:
    fields: dict[str, Any] = {"text": "corpus.txt", "tokens": 96, "window_tokens": 32}
    return prompts.FidelityJob(**(fields | changes))


def smoke_texts(**changes: Any) -> prompts.SmokeJob:
    fields: dict[str, Any] = {"texts": 4, "tokens": 20, "prompts": 3}
    return prompts.SmokeJob(**(fields | changes))


def prompts_job(*, fidelity: prompts.FidelityJob | None = None, **workload: Any) -> prompts.Job:
    fields: dict[str, Any] = {"text": "text.txt", "prompt_tokens": 24, "output_tokens": 3, "concurrency": 1, "pairs": 2}
    return prompts.Job(
        eval_sets=["colours"],
        workloads={"short": prompts.WorkloadJob(**(fields | workload))},
        fidelity=fidelity or fidelity_text(),
        smoke=smoke_texts(),
    )


def quantize_job(quantizer: str = "fp16", **settings: Any) -> quantize.Job:
    return quantize.Job(
        variant="one",
        quantizer=quantizer,
        settings=settings,
        device="cpu",
        compute_dtype=DTYPES,
        threads=2,
        seed=0,
    )


def reference_job(**changes: Any) -> reference.Job:
    fields: dict[str, Any] = {"engine": "transformers", "device": "cpu", "compute_dtype": DTYPES, "threads": 1}
    return reference.Job(**(fields | changes))


def smoke_job(**changes: Any) -> smoke.Job:
    fields: dict[str, Any] = {"variant": "one", "kld_max": 3.0, "top1_min": 0.2}
    return smoke.Job(**(reference_job().model_dump() | fields | changes))


def sweep(*concurrency: int) -> Sweep:
    return Sweep(workload="short", concurrency=list(concurrency), pairs=1)


def benchmark_job(**changes: Any) -> benchmark.Job:
    fields: dict[str, Any] = {
        "variant": "one",
        "engine": "transformers",
        "python": processes.PYTHON,
        "baseline": "one",
        "baseline_engine": "transformers",
        "baseline_python": processes.PYTHON,
        "device": "cpu",
        "compute_dtype": {"cpu": "float32", "cuda": "float16"},
        "threads": 1,
        "cores": None,
        "waiting": "passive",
        "allocator": "default",
        "seed": 7,
        "workload": "short",
        "sweep": sweep(1, 2),
        "processes": 3,
        "half_width": 0.9,
        "budget_s": 0,
        "alternation": "auto",
        "time_limit_s": 600,
        "load_timeout_s": 120,
        "request_timeout_s": 60,
        "workload_timeout_s": 60,
    }
    return benchmark.Job(**(fields | changes))
