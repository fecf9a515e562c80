"""Threads, waiting and allocator of the workers: what each setting does to speed, each against the one in params.yaml.

Both sides run the same artifact in alternation and differ in one setting, so the ratio is the setting's. Above 1 the
setting of the line decodes faster, or has the first token sooner, than the one in params.yaml. Where they differ in
waiting they take turns by blocks, one process at a time: threads that spin do so while idle too, and would take the
cores from the other side.

    python benchmarks/runtime_settings.py [--processes 3] [--only waiting]

Run it in a project folder whose artifact `fp16` is made (`dvc repro quantize@fp16 prompts`). The last line is JSON:
setting → {"decode": ratio, "decode_low": ..., "decode_high": ..., "first_token": ..., ...}.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace

import _pairs

from pipeline import params, processes
from pipeline.metrics import pairing
from pipeline.metrics.pairing import Speedup
from pipeline.probes import hardware, placement
from pipeline.readings import Alternation, Side

OUTPUT_TOKENS = 32
PAIRS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--only", help="settings whose name begins so, e.g. waiting")
    asked = parser.parse_args()
    processes.exit_on_signals()
    settings = params.load()
    level, ours = _pairs.level(settings, OUTPUT_TOKENS, PAIRS), _pairs.as_in_params(settings)
    found: dict[str, dict[str, float | None]] = {}
    for name, other in others(ours):
        if asked.only and not name.startswith(asked.only):
            continue
        sides = {Side.VARIANT: other, Side.BASELINE: ours}
        pairs = _pairs.measure(
            settings,
            sides,
            level,
            settings.seed,
            alternation=Alternation.RESIDENT if other.waiting == ours.waiting else Alternation.BLOCKS,
            enough=lambda pairs, number, spent_s: number >= asked.processes,
        )
        decode = _pairs.speedup(pairs, settings)
        first = pairing.first_token_speedup(pairs, settings.seed)
        assert not isinstance(first, str), first
        print(f"{name}: decode {_pairs.shown(decode)}; first token {_pairs.shown(first)}", flush=True)
        found[name] = {**parts("decode", decode), **parts("first_token", first)}
    print(json.dumps(found))


def others(ours: _pairs.Process) -> Iterator[tuple[str, _pairs.Process]]:
    """Every setting that params.yaml could have instead, one change at a time."""
    for threads in range(1, hardware.cpu_cores() + 1):
        if threads != ours.threads:
            yield f"threads {threads}", replace(ours, threads=threads)
    for waiting in placement.WAITING:
        if waiting != ours.waiting:
            yield f"waiting {waiting}", replace(ours, waiting=waiting)
    for allocator in placement.ALLOCATOR:
        if allocator != ours.allocator:
            yield f"allocator {allocator}", replace(ours, allocator=allocator)


def parts(name: str, found: Speedup) -> dict[str, float | None]:
    values = {name: found.ratio, f"{name}_low": found.low.value, f"{name}_high": found.high.value}
    return {key: None if value is None else round(value, 4) for key, value in values.items()}


if __name__ == "__main__":
    main()
