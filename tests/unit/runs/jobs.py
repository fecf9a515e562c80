"""Jobs of the test project; see conftest.py beside this."""

from __future__ import annotations

from typing import Any

from pipeline.runs import base, prompts, quantize

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


def prompts_job(**workload: Any) -> prompts.Job:
    fields: dict[str, Any] = {"text": "text.txt", "prompt_tokens": 24, "output_tokens": 3, "concurrency": 1, "pairs": 2}
    return prompts.Job(eval_sets=["colours"], workloads={"short": prompts.WorkloadJob(**(fields | workload))})


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
