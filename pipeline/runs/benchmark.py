"""Measure one variant in alternation with the baseline: speed, memory, and how sure the speed-up is."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from pydantic import BaseModel, ConfigDict

from pipeline import checkpoint, progress, records, soundness, store
from pipeline.alternation import Findings, ProcessPair, Setting
from pipeline.artifact_records import Manifest
from pipeline.engines import misplaced_reason
from pipeline.levels import Level, Sweep, plan
from pipeline.metrics import pairing
from pipeline.probes import hardware, placement
from pipeline.readings import (
    Alternation,
    Failure,
    FailureKind,
    Side,
    SpeedRecord,
    Stop,
    WorkloadReadings,
)
from pipeline.records import Status, WorkloadPrompts
from pipeline.residents import Load, Resident

SPARE_PAIRS = 3
"""Pairs of processes that may be lost before the measurement ends with what it has."""
LOADED_SHARE = 1.3
"""Loaded weights and their workspace, as a multiple of the weight files."""
GIB = 2**30
PROCESS_BYTES = GIB
"""What a worker takes beside its model: libraries, the device's context, activations."""


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    engine: str
    python: Path
    """The interpreter that has the engine's packages."""
    baseline: str
    baseline_engine: str
    baseline_python: Path
    device: str
    compute_dtype: dict[str, str]
    threads: int
    cores: list[int] | None
    waiting: str
    allocator: str
    seed: int
    workload: str
    """The deciding one, whose speed-up must be known to `half_width`."""
    sweep: Sweep
    processes: int
    half_width: float
    budget_s: float
    alternation: str
    time_limit_s: float
    """No further pair of processes is begun after this."""
    load_timeout_s: float
    request_timeout_s: float
    workload_timeout_s: float


def run(job: Job) -> SpeedRecord:
    """Raises UserError: a worker found a mistake that the user must mend."""
    return Benchmark(job).run()


class Benchmark:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._manifest = checkpoint.read_manifest(store.artifact(job.variant))
        self._without_baseline = soundness.why_not(job.baseline)
        self._baseline = None if self._without_baseline else checkpoint.read_manifest(store.artifact(job.baseline))
        prompts = records.load(store.WORKLOAD_PROMPTS, WorkloadPrompts).workloads
        self._levels = plan(prompts, job.workload, job.sweep)
        self._headline = next(level for level in self._levels if level.deciding)
        self._alternation, self._alternation_reason = self._first_choice()
        self._findings = Findings()
        self._steps = _Steps(job.processes, self._levels)
        self._start = time.monotonic()

    def run(self) -> SpeedRecord:
        random = Random(f"{self._job.seed} {self._job.variant}")
        number = whole = lost = 0
        stop: Stop | None = None
        while stop is None and lost <= SPARE_PAIRS and not self._misplaced():
            levels = self._levels if whole < self._job.processes else [self._headline]
            given_up = self._given_up()
            pair = ProcessPair(number, self._setting(random), self._findings)
            if pair.measure(levels, self._alternation, probe=whole == 0):
                whole += 1
                stop = self._stop(whole)
            elif self._goes_on(number):
                # A pair that taught which size is not to be tried again is not lost.
                lost += self._given_up() == given_up
            else:
                break
            number += 1
        self._measure_apart(number, random)
        return self._record(stop)

    # --- how to go on ------------------------------------------------------------------------------------------

    def _given_up(self) -> set[tuple[Side, tuple[str, int]]]:
        return {(side, level.key) for side in Side for level in self._levels if self._findings.given_up(side, level)}

    def _measure_apart(self, number: int, random: Random) -> None:
        """One model at a time, for the levels that did not fit with both loaded."""
        crowded = [level for level in self._levels if self._crowded(level)]
        if self._alternation is not Alternation.RESIDENT or self._job.alternation != "auto" or not crowded:
            return
        self._findings.first_try = number
        for pair in range(number, number + self._job.processes):
            ProcessPair(pair, self._setting(random), self._findings).measure(crowded, Alternation.BLOCKS, probe=False)

    def _crowded(self, level: Level) -> bool:
        return any(
            f.kind is FailureKind.OUT_OF_MEMORY and (f.workload, f.concurrency) == level.key
            for f in self._findings.failures
        )

    def _first_choice(self) -> tuple[Alternation, str | None]:
        if self._baseline is None:
            return Alternation.ALONE, f"the baseline {self._job.baseline}: {self._without_baseline}"
        if self._job.alternation != "auto":
            wanted = Alternation(self._job.alternation)
            return wanted, None if wanted is Alternation.RESIDENT else "params.yaml asks for it"
        needed = sum(_loaded_bytes(m, self._job.compute_dtype) for m in (self._manifest, self._baseline))
        free = _free_bytes(self._job.device)
        if needed > free:
            words = f"both models need about {needed / GIB:.1f} GiB, {free / GIB:.1f} GiB are free"
            return Alternation.BLOCKS, words
        return Alternation.RESIDENT, None

    def _goes_on(self, number: int) -> bool:
        """After a lost pair of processes: whether to try again, perhaps another way."""
        found, job = self._findings, self._job
        if self._failed_to_load(Side.VARIANT, number):
            return False
        refused = [*found.load_failures(Side.VARIANT, number), *found.load_failures(Side.BASELINE, number)]
        if self._alternation is Alternation.RESIDENT and job.alternation == "auto" and any(map(_no_room, refused)):
            self._alternation, self._alternation_reason = Alternation.BLOCKS, f"side by side: {refused[-1].reason}"
        elif self._failed_to_load(Side.BASELINE, number):
            self._alternation = Alternation.ALONE
            self._alternation_reason = f"the baseline {job.baseline} could not be loaded: {refused[-1].reason}"
        return True

    def _failed_to_load(self, side: Side, number: int) -> bool:
        """In this pair of processes and in the one before."""
        return all(self._findings.load_failures(side, process) for process in (number, number - 1))

    def _stop(self, whole: int) -> Stop | None:
        spent_s = time.monotonic() - self._start
        if spent_s > self._job.time_limit_s:
            return Stop.TIME_LIMIT
        if whole < self._job.processes:
            return None
        pairs = self._findings.pairs.get(self._headline.key, [])
        speedup = pairing.decode_speedup(pairs, self._job.seed)
        if isinstance(speedup, str):
            return Stop.NO_PAIRS
        width = speedup.half_width().value
        if width is not None and width <= self._job.half_width:
            return Stop.PRECISE
        return Stop.BUDGET if spent_s > self._job.budget_s else None

    # --- the parts ---------------------------------------------------------------------------------------------

    def _setting(self, random: Random) -> Setting:
        job = self._job
        names = {Side.VARIANT: (job.variant, job.engine)}
        if self._alternation is not Alternation.ALONE:
            names[Side.BASELINE] = (job.baseline, job.baseline_engine)
        pythons = {Side.VARIANT: job.python, Side.BASELINE: job.baseline_python}
        environment = placement.environment(job.waiting, job.allocator)
        words = placement.words(job.threads, job.cores, job.waiting, job.allocator)
        loads = {
            side: Load(
                variant=variant,
                engine=engine,
                device=job.device,
                compute_dtype=job.compute_dtype,
                threads=job.threads,
                cores=job.cores,
                settings=words,
                seed=job.seed,
                ours=[],
            )
            for side, (variant, engine) in names.items()
        }
        return Setting(
            loads=loads,
            start=lambda side: Resident(environment, pythons[side]),
            load_timeout_s=job.load_timeout_s,
            request_timeout_s=job.request_timeout_s,
            workload_timeout_s=job.workload_timeout_s,
            random=random,
            step=self._steps.next,
        )

    def _misplaced(self) -> str | None:
        for side, loaded in self._findings.loaded.items():
            if loaded.misplaced:
                return f"{side.value}: {misplaced_reason(loaded.misplaced, loaded.engine.device)}"
        return None

    def _record(self, stop: Stop | None) -> SpeedRecord:
        found = self._findings
        loaded, baseline = found.loaded.get(Side.VARIANT), found.loaded.get(Side.BASELINE)
        status, reason = self._status()
        return SpeedRecord(
            variant=self._job.variant,
            status=status,
            reason=reason,
            baseline=self._job.baseline,
            artifact_sha256=self._manifest.artifact_sha256,
            baseline_artifact_sha256=self._baseline.artifact_sha256 if self._baseline else None,
            engine=loaded.engine if loaded else None,
            baseline_engine=baseline.engine if baseline else None,
            environment_sha256=store.sha256_file(store.ENVIRONMENT),
            seed=self._job.seed,
            alternation=self._alternation,
            alternation_reason=self._alternation_reason,
            stop=stop,
            measured_s=time.monotonic() - self._start,
            decode_weight_bytes=loaded.decode_weight_bytes if loaded else None,
            parameters=self._manifest.parameters,
            context_length=self._manifest.context_length,
            workloads=[self._readings(level) for level in self._levels],
            processes=found.processes,
            failures=found.failures,
            kv_cache=found.cache,
            limits=found.limits,
        )

    def _status(self) -> tuple[Status, str | None]:
        misplaced = self._misplaced()
        if misplaced:
            return Status.INVALID, misplaced
        if self._findings.pairs.get(self._headline.key):
            return Status.OK, None
        decisive = [
            f
            for f in self._findings.failures
            if f.side is Side.VARIANT and (f.step == "load" or (f.workload, f.concurrency) == self._headline.key)
        ]
        why = f"{decisive[-1].kind.value}, {decisive[-1].reason}" if decisive else "every pair of processes was lost"
        return Status.FAILED, f"no reading of workload {self._job.workload}: {why}"

    def _readings(self, level: Level) -> WorkloadReadings:
        return WorkloadReadings(
            workload=level.workload,
            concurrency=level.concurrency,
            prompt_tokens=len(level.prompt),
            output_tokens=level.output_tokens,
            prompt_sha256=level.prompt_sha256,
            pairs=self._findings.pairs.get(level.key, []),
        )


def _free_bytes(on: str) -> float:
    """Free memory of the device that torch will take: a GPU where there is one, unless the CPU is asked for."""
    gpu = hardware.gpu_free_bytes().value if on != "cpu" else None
    return hardware.available_bytes() if gpu is None else gpu


def _loaded_bytes(artifact: Manifest, compute_dtype: dict[str, str]) -> float:
    """About what a worker takes with this model. Weight files in 16 bits double where the engine computes in 32."""
    widened = 2 if artifact.format == "safetensors" and "float32" in compute_dtype.values() else 1
    return float(LOADED_SHARE * widened * artifact.weight_bytes + PROCESS_BYTES)


def _no_room(failure: Failure) -> bool:
    """Whether a model may not have loaded for want of memory: refused by the allocator, or killed by the system."""
    return failure.kind is FailureKind.OUT_OF_MEMORY or "SIGKILL" in failure.reason


class _Steps:
    """Counts turns over all pairs of processes, for the progress display."""

    def __init__(self, processes: int, levels: list[Level]) -> None:
        self._total = processes * 2 * (1 + sum(1 + level.pairs for level in levels))
        self._done = 0

    def next(self, what: str) -> None:
        self._done += 1
        progress.report(self._done, max(self._done, self._total), what)
