"""What the measuring harness costs: the decode tokens/s that it reports over those of a bare `generate` loop.

Both use the same loaded model and prompt in this one process and take turns in random order, so that nothing but the
harness differs. The bare loop cannot see the first token, so it times `generate` for n tokens and for one; the
difference is the time of n - 1 tokens.

    python benchmarks/overhead.py [--pairs 40]

Run it in a project folder whose artifact `fp16` is made (`dvc repro quantize@fp16 prompts`). The last line is JSON:
the median ratio with its 95 % interval (percentile bootstrap over the pairs).
"""

from __future__ import annotations

import argparse
import json
import time
from random import Random
from typing import Any

import numpy
import torch
from scipy.stats import bootstrap
from transformers import AutoModelForCausalLM, GenerationConfig

from pipeline import params, records, store
from pipeline.engines import EngineOptions
from pipeline.engines.transformers import TransformersSession
from pipeline.metrics import latency
from pipeline.probes import device
from pipeline.records import WorkloadPrompts

OUTPUT_TOKENS = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    pairs = parser.parse_args().pairs
    settings = params.load()
    on = device.resolve(settings.runtime.device)
    dtype = getattr(settings.runtime.compute_dtype, on)
    device.set_threads(on, settings.runtime.threads)
    model = AutoModelForCausalLM.from_pretrained(
        store.artifact("fp16"), dtype=getattr(torch, dtype), device_map=on, local_files_only=True
    ).eval()
    harness = TransformersSession(model, EngineOptions(on, dtype, settings.runtime.threads))
    prompts = records.load(store.WORKLOAD_PROMPTS, WorkloadPrompts).workloads
    prompt = next(p.token_ids for p in prompts if p.workload == settings.decision.workload)

    def harnessed() -> float:
        return latency.decode_tokens_per_s(harness.answer([prompt], OUTPUT_TOKENS))

    def bare() -> float:
        return (OUTPUT_TOKENS - 1) / (generate_s(model, prompt, OUTPUT_TOKENS, on) - generate_s(model, prompt, 1, on))

    for _ in range(3):
        harnessed(), bare()
    random, ratios = Random(settings.seed), []
    for pair in range(pairs):
        order = [harnessed, bare]
        random.shuffle(order)
        rates = {side: side() for side in order}
        ratios.append(rates[harnessed] / rates[bare])
        print(f"{pair + 1:3}: {rates[harnessed]:.2f} harness, {rates[bare]:.2f} bare, {ratios[-1]:.4f}", flush=True)
    interval = bootstrap((numpy.array(ratios),), numpy.median, method="percentile", rng=0).confidence_interval
    found = {"ratio": float(numpy.median(ratios)), "ci_low": float(interval.low), "ci_high": float(interval.high)}
    print(json.dumps({name: round(value, 4) for name, value in found.items()}))


def generate_s(model: Any, prompt: list[int], tokens: int, on: str) -> float:
    """Seconds of a plain `generate` call that gives exactly `tokens` tokens."""
    inputs = torch.tensor([prompt], device=on)
    config = GenerationConfig(do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, pad_token_id=0)
    device.synchronise(on)
    start = time.perf_counter()
    with torch.inference_mode():
        model.generate(inputs, attention_mask=torch.ones_like(inputs), generation_config=config)
    device.synchronise(on)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
