"""Quantizing on a CPU with the allocator's defaults and with freed memory kept: wall time of one over the other.

Each quantizer runs in turns with both settings, in random order, in a worker of its own as in `dvc repro`, with few
calibration samples and the first decoder layers of the base model: each layer's work is alike. System time (page
faults) and wall time of each run are printed.

    python benchmarks/quantize_allocator.py [--rounds 2] [--samples 4] [--layers 6]

Run it in a project folder whose base model is made (`dvc repro base`). The last line is JSON: for each variant that
calibrates, `*_ratio` is the median over the rounds of wall time with `retain` / wall time with `default`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from pipeline import params, plugins, processes, store, supervise
from pipeline.params import Params
from pipeline.probes import placement
from pipeline.runs.quantize import Job

SCRATCH = "allocator-benchmark"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--layers", type=int, default=6)
    asked = parser.parse_args()
    processes.exit_on_signals()
    settings = params.load()
    with tempfile.TemporaryDirectory(prefix="quantgate-allocator-") as folder:
        shorten(Path(folder), asked.layers)
        os.chdir(folder)
        measure(settings, asked.rounds, asked.samples)


def measure(settings: Params, rounds: int, samples: int) -> None:
    random, ratios = Random(settings.seed), dict[str, list[float]]()
    names = [name for name, variant in settings.variants.items() if "calibration" in variant.settings]
    for number in range(rounds):
        for name in names:
            order = list(placement.ALLOCATOR)
            random.shuffle(order)
            wall_s = {allocator: quantize_s(settings, name, samples, allocator) for allocator in order}
            ratios.setdefault(name, []).append(wall_s["retain"] / wall_s["default"])
            print(f"round {number + 1}, {name}: retain / default {ratios[name][-1]:.3f}", flush=True)
    print(json.dumps({f"{name}_ratio": round(statistics.median(found), 4) for name, found in ratios.items()}))


def shorten(project: Path, layers: int) -> None:
    """A project folder with the calibration sets, and the base model cut to its first decoder layers."""
    from safetensors.torch import load_file, save_file

    base = project / store.BASE
    base.mkdir(parents=True)
    for path in store.BASE.iterdir():
        if path.suffix != ".safetensors":
            shutil.copy(path, base)
            continue
        tensors = load_file(path)
        kept = {name: tensor for name, tensor in tensors.items() if layer_of(name) < layers}
        save_file(kept, base / path.name, metadata={"format": "pt"})
    config = store.read_json(base / "config.json")
    store.write_json(base / "config.json", {**config, "num_hidden_layers": min(layers, config["num_hidden_layers"])})
    shutil.copytree(store.CALIBRATION, project / store.CALIBRATION)


def layer_of(tensor: str) -> int:
    """Number of the decoder layer that a tensor belongs to; -1 for those outside."""
    found = re.search(r"\.layers\.(\d+)\.", tensor)
    return int(found.group(1)) if found else -1


def quantize_s(settings: Params, name: str, samples: int, allocator: str) -> float:
    """Wall seconds of quantizing one variant into a scratch folder."""
    variant, runtime = settings.variants[name], settings.runtime
    calibration: dict[str, Any] = {**variant.settings["calibration"], "samples": samples}
    out = store.artifact(SCRATCH)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    job = Job(
        variant=SCRATCH,
        quantizer=variant.quantizer,
        settings={**variant.settings, "calibration": calibration},
        device=runtime.device,
        compute_dtype=runtime.compute_dtype.model_dump(),
        threads=runtime.threads,
        seed=settings.seed,
    )
    environment = {
        **placement.environment(runtime.waiting, allocator),
        **plugins.load("pipeline.quantizers", variant.quantizer).ENVIRONMENT,
    }
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    result = supervise.run(
        "quantize",
        job,
        title=f"{name} {allocator}",
        log=Path("logs", f"{SCRATCH}.log"),
        timeout_s=7200,
        environment=environment,
    )
    wall_s, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(out)
    if isinstance(result, supervise.Failure):
        sys.exit(f"{name}: {result.reason}")
    print(
        f"{name} {allocator}: wall {wall_s:.1f} s, user {after.ru_utime - before.ru_utime:.1f} s, "
        f"system {after.ru_stime - before.ru_stime:.1f} s, page faults {after.ru_minflt - before.ru_minflt:,}",
        flush=True,
    )
    return wall_s


if __name__ == "__main__":
    main()
