"""What the scripts here share: one level of the project's own workload, and pairs of processes for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from pipeline import records, store
from pipeline.alternation import Findings, ProcessPair, Setting
from pipeline.levels import Level, Sweep, plan
from pipeline.metrics import pairing
from pipeline.metrics.pairing import Speedup
from pipeline.params import Params
from pipeline.probes import placement
from pipeline.readings import Alternation, PairReading, Side
from pipeline.records import WorkloadPrompts
from pipeline.residents import Load, Resident

VARIANT = "fp16"
HALF_WIDTH = 0.03


@dataclass(frozen=True)
class Process:
    """How one side's processes are set up."""

    threads: int
    waiting: str
    allocator: str

    def load(self, settings: Params) -> Load:
        runtime = settings.runtime
        return Load(
            variant=VARIANT,
            engine=settings.variants[VARIANT].engine,
            device=runtime.device,
            compute_dtype=runtime.compute_dtype.model_dump(),
            threads=self.threads,
            cores=runtime.cores,
            settings={},
            seed=settings.seed,
            ours=[],
        )

    def start(self) -> Resident:
        return Resident(placement.environment(self.waiting, self.allocator))


def as_in_params(settings: Params) -> Process:
    runtime = settings.runtime
    return Process(runtime.threads, runtime.waiting, runtime.allocator)


def level(settings: Params, output_tokens: int, pairs: int) -> Level:
    """The deciding workload with an output length and number of turns of its own."""
    prompts = records.load(store.WORKLOAD_PROMPTS, WorkloadPrompts).workloads
    wanted = next(prompt for prompt in prompts if prompt.workload == settings.decision.workload)
    changed = wanted.model_copy(update={"output_tokens": output_tokens, "pairs": pairs})
    [found] = plan([changed], wanted.workload, Sweep(workload=wanted.workload, concurrency=[], pairs=1))
    return replace(found, prefill=False)


def measure(
    settings: Params,
    sides: Mapping[Side, Process],
    asked: Level,
    seed: int,
    *,
    alternation: Alternation = Alternation.RESIDENT,
    enough: Callable[[list[PairReading], int, float], bool],
) -> list[PairReading]:
    """Pairs of fresh processes until `enough` says so, given all pairs, the number of processes and the seconds."""
    setting = Setting(
        loads={side: process.load(settings) for side, process in sides.items()},
        start=lambda side: sides[side].start(),
        load_timeout_s=300,
        request_timeout_s=300,
        workload_timeout_s=3600,
        random=Random(seed),
        step=lambda what: None,
    )
    findings, start, number = Findings(), time.monotonic(), 0
    while True:
        if not ProcessPair(number, setting, findings).measure([asked], alternation, probe=False):
            sys.exit(f"a process was lost: {findings.failures}")
        number += 1
        pairs = findings.pairs[asked.key]
        if enough(pairs, number, time.monotonic() - start):
            return pairs


def precise_or_spent(settings: Params, budget_s: float) -> Callable[[list[PairReading], int, float], bool]:
    """The rule of the benchmark stage: enough processes, and then a narrow interval or no more time."""

    def enough(pairs: list[PairReading], processes: int, spent_s: float) -> bool:
        if processes < settings.benchmark.pairing.processes:
            return False
        width = speedup(pairs, settings).half_width().value
        return (width is not None and width <= HALF_WIDTH) or spent_s > budget_s

    return enough


def speedup(pairs: list[PairReading], settings: Params) -> Speedup:
    found = pairing.decode_speedup(pairs, settings.seed)
    if isinstance(found, str):
        sys.exit(found)
    return found


def shown(found: Speedup) -> str:
    low, high = found.low.value, found.high.value
    interval = "no interval" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"
    return f"{found.ratio:.3f} {interval} ({found.pairs} pairs in {found.processes} processes)"
