"""The whole measurement of fp16 and one quantized variant on a CUDA machine, in under five minutes.

Nothing is downloaded; what the project needs to measure (`NEEDED`) must be installed. The model is a Llama with random
weights that the script makes, so its speeds mean nothing beyond this: they come from the real kernels through every
CUDA path of the project. The quantized variant is the first one whose packages are installed, bitsandbytes or GPTQModel
with optimum. torch and transformers alone have none: of transformers' own formats fine-grained FP8, MXFP4 and NVFP4
fetch their kernels from the hub, and BitNet wants weights that were trained for it.

    python benchmarks/gpu_check.py [--device cuda] [--quantizer gptqmodel_gptq] [--layers 16] [--hidden 2048]

`--device cpu --layers 2 --hidden 128` tries the script itself where there is no GPU. The last line is JSON: `checks`,
each true or false, and what was measured. The exit code is 1 when a check is false, as `quantized_measured` is where
no quantized variant could be made.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

NEEDED = ("torch", "transformers", "accelerate", "pydantic", "yaml", "numpy", "scipy", "psutil", "pynvml")
QUANTIZERS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "bitsandbytes_int8": (("bitsandbytes",), {}),
    "gptqmodel_gptq": (
        ("gptqmodel", "optimum"),
        {"group_size": 64, "calibration": {"set": "general", "samples": 4, "max_tokens": 128}},
    ),
}
"""Quantizer → the packages that making and loading its artifact takes, and its settings; in order of preference."""
LIMIT_S = 300
LENGTHS = {"short": 64, "long": 900}
OUTPUT_TOKENS = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quantizer", choices=list(QUANTIZERS), help="default: the first whose packages are installed")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    asked = parser.parse_args()
    if lacking(NEEDED):
        sys.exit(f"this Python lacks {', '.join(lacking(NEEDED))}; install them first")
    from pipeline import processes

    processes.exit_on_signals()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder, contextlib.chdir(folder):
        make(asked.layers, asked.hidden)
        print(f"the model is made: {time.monotonic() - start:.0f} s", flush=True)
        found = measure(asked.device, asked.quantizer)
    found["seconds"] = round(time.monotonic() - start, 1)
    found["checks"]["under_five_minutes"] = found["seconds"] < LIMIT_S
    print(json.dumps(found))
    sys.exit(0 if all(found["checks"].values()) else 1)


def lacking(packages: Iterable[str]) -> list[str]:
    return [name for name in packages if importlib.util.find_spec(name) is None]


def make(layers: int, hidden: int) -> None:
    """A project folder: base model, prompts, and the record of the machine."""
    import tiny

    from pipeline import store
    from pipeline.runs import base, prompts
    from pipeline.stages import environment

    tiny.build(Path("model"), hidden=hidden, layers=layers)
    shutil.copytree(ROOT / store.CALIBRATION, store.CALIBRATION)
    Path("text.txt").write_text("Which of our products arrived late, and what did we promise? " * 200, encoding="utf-8")
    environment.main()
    fields = {"name": "random", "licence": "Apache-2.0", "provenance": "random weights"}
    base.run(base.Job(**fields, kind="local", source={"path": "model"}))
    workloads = {
        name: prompts.WorkloadJob(
            text="text.txt", prompt_tokens=tokens, output_tokens=OUTPUT_TOKENS, concurrency=1, pairs=5
        )
        for name, tokens in LENGTHS.items()
    }
    text = prompts.FidelityJob(text="text.txt", tokens=256, window_tokens=64)
    smoke = prompts.SmokeJob(texts=4, tokens=32, prompts=1)
    prompts.run(prompts.Job(eval_sets=[], workloads=workloads, fidelity=text, smoke=smoke))


def measure(device: str, quantizer: str | None) -> dict[str, Any]:
    from pipeline import records, store
    from pipeline.errors import UserError
    from pipeline.probes import hardware
    from pipeline.readings import SpeedRecord

    variants = {"fp16": "fp16"}
    wanted = [quantizer] if quantizer else list(QUANTIZERS)
    found = next((name for name in wanted if not lacking(QUANTIZERS[name][0])), None)
    if found:
        variants["quantized"] = found
    speed: dict[str, SpeedRecord] = {}
    failures: dict[str, str] = {}
    try:
        for variant, made_by in variants.items():
            failure = quantize(variant, made_by, device)
            if failure:
                failures[variant] = failure
                continue
            speed[variant] = benchmark(variant, device)
            print(f"{variant}: {speed[variant].status} {speed[variant].reason or ''}", flush=True)
    except UserError as error:
        sys.exit("\n".join(error.problems))
    environment = records.load(store.ENVIRONMENT, records.Environment)
    return {
        "gpus": [gpu.model_dump() for gpu in environment.gpus] or environment.gpu_reason,
        "gpu_free_bytes": hardware.gpu_free_bytes().value,
        "quantizer": found,
        "packages_lacking": {name: lacking(packages) for name, (packages, _) in QUANTIZERS.items()},
        "quantize_failures": failures,
        "checks": dict(checks(speed, device)),
        "variants": {variant: summary(record) for variant, record in speed.items()},
    }


def quantize(variant: str, quantizer: str, device: str) -> str | None:
    """In a worker, so that the memory of quantizing is gone when measuring begins. Returns why it failed."""
    from pipeline import plugins, records, store, supervise
    from pipeline.runs.quantize import Job
    from pipeline.smoke_records import SmokeVerdict
    from pipeline.toolchains import environments

    store.artifact(variant).mkdir(parents=True)
    needs = plugins.load("pipeline.quantizers", quantizer)
    job = Job(
        variant=variant,
        quantizer=quantizer,
        settings=QUANTIZERS[quantizer][1] if quantizer in QUANTIZERS else {},
        device=device,
        compute_dtype={"cpu": "bfloat16", "cuda": "float16"},
        threads=2,
        seed=0,
    )
    title, log = f"quantize {variant}", store.log("quantize", variant)
    found = supervise.run(
        "quantize",
        job,
        title=title,
        log=log,
        timeout_s=200,
        environment=needs.ENVIRONMENT,
        python=environments.python_for("pipeline.quantizers", quantizer),
    )
    if isinstance(found, supervise.Failure):
        return found.reason
    # Random weights have nothing that could collapse.
    records.save(store.smoke_verdict(variant), SmokeVerdict(reason=None))
    return None


def benchmark(variant: str, device: str) -> Any:
    from pipeline import levels, processes
    from pipeline.runs import benchmark

    return benchmark.run(
        benchmark.Job(
            variant=variant,
            engine="transformers",
            python=processes.PYTHON,
            baseline="fp16",
            baseline_engine="transformers",
            baseline_python=processes.PYTHON,
            device=device,
            compute_dtype={"cpu": "bfloat16", "cuda": "float16"},
            threads=2,
            cores=None,
            waiting="passive",
            allocator="default",
            seed=0,
            workload="short",
            sweep=levels.Sweep(workload="short", concurrency=[1, 8, 32], pairs=2),
            processes=3,
            half_width=0.03,
            budget_s=0,
            alternation="auto",
            time_limit_s=240,
            load_timeout_s=120,
            request_timeout_s=60,
            workload_timeout_s=60,
        )
    )


def checks(speed: dict[str, Any], device: str) -> Iterator[tuple[str, bool]]:
    """What must hold on any device, and what only a GPU has."""
    yield "quantized_measured", "quantized" in speed
    for variant, record in speed.items():
        for name, holds in _variant_checks(record, device):
            yield f"{variant}_{name}", holds


def _variant_checks(record: Any, device: str) -> Iterator[tuple[str, bool]]:
    turns = [pair.variant for workload in record.workloads for pair in workload.pairs]
    yield "ok", record.status.value == "ok"
    yield "on_device", record.engine is not None and record.engine.device == device
    yield "no_failures", not record.failures
    yield "three_process_pairs", len({process.process for process in record.processes}) == 3
    yield "full_outputs", bool(turns) and all(len(turn.token_s) == OUTPUT_TOKENS for turn in turns)
    yield "device_limits", record.limits is not None and record.limits.flops_per_s.value is not None
    yield "cache_as_configured", _cache_agrees(record.kv_cache)
    if device == "cuda":
        memory = [process.memory for process in record.processes]
        peaks = [(m.allocator_peak_bytes.value or 0, m.allocator_reserved_peak_bytes.value or 0) for m in memory]
        yield "device_times", bool(turns) and all(turn.device_s and turn.device_s[1] > 0 for turn in turns)
        yield "allocator_peaks", bool(peaks) and all(0 < allocated <= reserved for allocated, reserved in peaks)


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
        lines[f"{workload.workload}_{workload.concurrency}"] = {
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
