"""The whole measurement of fp16 and one quantized variant on a CUDA machine, in under five minutes.

For a machine whose Python has torch and transformers; nothing is downloaded. The model is a Llama with random weights
that the script makes, so its speeds mean nothing beyond this: they come from the real kernels through every CUDA path
of the project. The quantized variant is the first one whose packages are installed.

    python benchmarks/gpu_check.py [--device cuda] [--layers 16] [--hidden 2048]

`--device cpu --layers 2 --hidden 128` tries the script itself where there is no GPU. The last line is JSON: `checks`,
each true or false, and what was measured. The exit code is 1 when a check is false.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

NEEDED = ("torch", "transformers", "accelerate", "pydantic", "yaml", "numpy", "scipy", "psutil", "pynvml")
QUANTIZED = {"bitsandbytes": ("bitsandbytes_int8", {}), "gptqmodel": ("gptqmodel_gptq", {"group_size": 64})}
"""Package → quantizer and its settings, in order of preference."""
LENGTHS = {"short": 64, "long": 900}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    asked = parser.parse_args()
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        sys.exit(f"this Python lacks {', '.join(absent)}; install them first")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder, contextlib.chdir(folder):
        make(asked.layers, asked.hidden)
        print(f"the model is made: {time.monotonic() - start:.0f} s", flush=True)
        found = measure(asked.device)
    found["seconds"] = round(time.monotonic() - start, 1)
    print(json.dumps(found))
    sys.exit(0 if all(found["checks"].values()) else 1)


def make(layers: int, hidden: int) -> None:
    """A project folder: base model, prompts, and the record of the machine."""
    import tiny

    from pipeline.runs import base, prompts
    from pipeline.stages import environment

    tiny.build(Path("model"), hidden=hidden, layers=layers)
    Path("text.txt").write_text("Which of our products arrived late, and what did we promise? " * 200, encoding="utf-8")
    environment.main()
    fields = {"name": "random", "licence": "Apache-2.0", "provenance": "random weights"}
    base.run(base.Job(**fields, kind="local", source={"path": "model"}))
    workloads = {
        name: prompts.WorkloadJob(text="text.txt", prompt_tokens=tokens, output_tokens=32, concurrency=1, pairs=5)
        for name, tokens in LENGTHS.items()
    }
    prompts.run(prompts.Job(eval_sets=[], workloads=workloads))


def measure(device: str) -> dict[str, Any]:
    from pipeline import records, store
    from pipeline.errors import UserError
    from pipeline.probes import hardware
    from pipeline.readings import SpeedRecord

    variants = {"fp16": ("fp16", dict[str, Any]())}
    package = next((name for name in QUANTIZED if importlib.util.find_spec(name)), None)
    if package:
        variants["quantized"] = QUANTIZED[package]
    speed: dict[str, SpeedRecord] = {}
    try:
        for variant, (quantizer, settings) in variants.items():
            quantize(variant, quantizer, settings, device)
            speed[variant] = benchmark(variant, device)
            print(f"{variant}: {speed[variant].status} {speed[variant].reason or ''}", flush=True)
    except UserError as error:
        sys.exit("\n".join(error.problems))
    environment = records.load(store.ENVIRONMENT, records.Environment)
    return {
        "gpus": [gpu.model_dump() for gpu in environment.gpus] or environment.gpu_reason,
        "gpu_free_bytes": hardware.gpu_free_bytes().value,
        "quantized": variants["quantized"][0] if package else f"none: no {' or '.join(QUANTIZED)} here",
        "checks": dict(checks(speed, device)),
        "variants": {variant: summary(record) for variant, record in speed.items()},
    }


def quantize(variant: str, quantizer: str, settings: dict[str, Any], device: str) -> None:
    """In a worker, so that the memory of quantizing is gone when measuring begins."""
    from pipeline import plugins, store, supervise
    from pipeline.runs.quantize import Job

    store.artifact(variant).mkdir(parents=True)
    needs = plugins.load("pipeline.quantizers", quantizer)
    job = Job(
        variant=variant,
        quantizer=quantizer,
        settings=settings,
        device=device,
        compute_dtype={"cpu": "bfloat16", "cuda": "float16"},
        threads=2,
        seed=0,
    )
    title, log = f"quantize {variant}", store.log("quantize", variant)
    found = supervise.run("quantize", job, title=title, log=log, timeout_s=200, environment=needs.ENVIRONMENT)
    if isinstance(found, supervise.Failure):
        sys.exit(f"{quantizer}: {found.reason}")


def benchmark(variant: str, device: str) -> Any:
    from pipeline.runs import benchmark

    return benchmark.run(
        benchmark.Job(
            variant=variant,
            engine="transformers",
            baseline="fp16",
            baseline_engine="transformers",
            device=device,
            compute_dtype={"cpu": "bfloat16", "cuda": "float16"},
            threads=2,
            cores=None,
            waiting="passive",
            allocator="default",
            seed=0,
            workload="short",
            sweep_workload="short",
            sweep=[1, 8, 32],
            processes=3,
            half_width=0.03,
            budget_s=0,
            alternation="auto",
            load_timeout_s=120,
            request_timeout_s=60,
            workload_timeout_s=60,
        )
    )


def checks(speed: dict[str, Any], device: str) -> Iterator[tuple[str, bool]]:
    """What must hold on any device, and what only a GPU has."""
    for variant, record in speed.items():
        turns = [pair.variant for workload in record.workloads for pair in workload.pairs]
        yield f"{variant} ok", record.status.value == "ok"
        yield f"{variant} measured on {device}", record.engine is not None and record.engine.device == device
        yield f"{variant} without failures", not record.failures
        yield f"{variant} in three pairs of processes", len({p.process for p in record.processes}) == 3
        yield f"{variant} has every output at its length", all(len(turn.token_s) == 32 for turn in turns)
        yield f"{variant} has device limits", record.limits is not None and record.limits.flops_per_s.value is not None
        yield f"{variant} cache is as the config says", _cache_agrees(record.kv_cache)
        if device == "cuda":
            memory = [process.memory for process in record.processes]
            yield f"{variant} timed by the device", all(turn.device_s and turn.device_s[1] > 0 for turn in turns)
            yield f"{variant} allocator peaks", all((m.allocator_peak_bytes.value or 0) > 0 for m in memory)
            yield (
                f"{variant} reserved is not below allocated",
                all(
                    (m.allocator_reserved_peak_bytes.value or 0) >= (m.allocator_peak_bytes.value or 0) for m in memory
                ),
            )


def _cache_agrees(cache: Any) -> bool:
    if cache is None:
        return False
    per_token = 2 * cache.layers * cache.kv_heads * cache.head_dim * cache.bytes_per_element
    return bool(cache.measured_bytes == per_token * cache.measured_tokens)


def summary(record: Any) -> dict[str, Any]:
    from pipeline.metrics import latency, pairing

    lines = {}
    for workload in record.workloads:
        speed, ratio = latency.summarize(workload), pairing.decode_speedup(workload.pairs, 0)
        lines[f"{workload.workload} × {workload.concurrency}"] = {
            "decode_tokens_per_s": speed.decode_tokens_per_s.value,
            "aggregate_tokens_per_s": speed.aggregate_tokens_per_s.value,
            "ttft_s_p50": speed.ttft_s_p50.value,
            "speedup": ratio if isinstance(ratio, str) else [ratio.low.value, ratio.ratio, ratio.high.value],
        }
    return {
        "status": record.status,
        "reason": record.reason,
        "alternation": record.alternation,
        "kernels": record.engine and record.engine.kernels,
        "fallback_kernels": record.engine and record.engine.fallback_kernels,
        "failures": [failure.model_dump(mode="json") for failure in record.failures],
        "limits": record.limits and record.limits.model_dump(mode="json"),
        "processes": [process.model_dump(mode="json", exclude={"peaks"}) for process in record.processes],
        "workloads": lines,
    }


if __name__ == "__main__":
    main()
