"""Measure speed and memory of one artifact: load, check, warm up, repeat. Raw readings only."""

from __future__ import annotations

import time
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline import checkpoint, plugins, progress, records, store
from pipeline.engines import EngineOptions, Session, misplaced_reason
from pipeline.probes import device, process
from pipeline.records import (
    MemoryReadings,
    Reading,
    SpeedRecord,
    Status,
    WorkloadPrompt,
    WorkloadPrompts,
    WorkloadReadings,
    known,
)


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    engine: str
    device: str
    compute_dtype: dict[str, str]
    threads: int
    seed: int


def run(job: Job) -> SpeedRecord:
    manifest = checkpoint.read_manifest(store.artifact(job.variant))
    prompts = records.load(store.WORKLOAD_PROMPTS, WorkloadPrompts).workloads
    on = device.resolve(job.device)
    device.seed(job.seed)
    start = time.monotonic()
    session: Session = plugins.load("pipeline.engines", job.engine).load(
        store.artifact(job.variant), EngineOptions(on, job.compute_dtype[on], job.threads)
    )
    load_s = time.monotonic() - start
    load_peak = process.peak_bytes()
    common: dict[str, Any] = {
        "variant": job.variant,
        "artifact_sha256": manifest.artifact_sha256,
        "engine": session.info(),
        "environment_sha256": store.sha256_file(store.ENVIRONMENT),
        "seed": job.seed,
        "load_s": load_s,
    }
    misplaced = session.misplaced()
    if misplaced:
        return SpeedRecord(status=Status.INVALID, reason=misplaced_reason(misplaced, on), **common)
    steps = _Steps(prompts)
    process_peak_restarted = process.reset_peak()
    device.reset_peak(on)
    readings = [_measure(session, prompt, steps) for prompt in prompts]
    problems = [problem for reading in readings for problem in _length_problems(reading)]
    return SpeedRecord(
        status=Status.INVALID if problems else Status.OK,
        reason="; ".join(problems) or None,
        workloads=readings,
        memory=_memory(session, on, load_peak, process_peak_restarted),
        **common,
    )


class _Steps:
    """Counts requests over all workloads, for the progress display."""

    def __init__(self, prompts: list[WorkloadPrompt]) -> None:
        self._total = sum(2 * (prompt.warmup + prompt.repeats) for prompt in prompts)
        self._done = 0

    def next(self, workload: str) -> None:
        self._done += 1
        progress.report(self._done, self._total, workload)


def _measure(session: Session, prompt: WorkloadPrompt, steps: _Steps) -> WorkloadReadings:
    """Warm up, then repeat; requests and prefill passes take turns, so that drift meets both alike."""
    requests = []
    prefill_s = []
    for turn in range(prompt.warmup + prompt.repeats):
        request = session.stream(prompt.token_ids, prompt.output_tokens)
        steps.next(prompt.workload)
        seconds = session.prefill(prompt.token_ids)
        steps.next(prompt.workload)
        if turn >= prompt.warmup:
            requests.append(request)
            prefill_s.append(seconds)
    return WorkloadReadings(
        workload=prompt.workload,
        prompt_tokens=len(prompt.token_ids),
        output_tokens=prompt.output_tokens,
        prompt_sha256=prompt.prompt_sha256,
        warmup=prompt.warmup,
        requests=requests,
        prefill_s=prefill_s,
    )


def _memory(session: Session, on: str, load_peak: Reading, restarted: bool) -> MemoryReadings:
    return MemoryReadings(
        weight_bytes=known(session.weight_bytes()),
        process_load_peak_bytes=load_peak,
        process_run_peak_bytes=process.peak_bytes()
        if restarted
        else records.missing("the system did not let the peak be counted anew after loading"),
        allocator_peak_bytes=device.allocator_peak_bytes(on),
        allocator_reserved_peak_bytes=device.allocator_reserved_peak_bytes(on),
        nvml_process_bytes=device.nvml_process_bytes(on),
    )


def _length_problems(readings: WorkloadReadings) -> list[str]:
    lengths = {len(request.token_s) for request in readings.requests} - {readings.output_tokens}
    if not lengths:
        return []
    return [f"{readings.workload}: {readings.output_tokens} output tokens were pinned, got {sorted(lengths)}"]
