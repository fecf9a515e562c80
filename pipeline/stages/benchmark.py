"""Measure one variant in alternation with the baseline; a failure becomes its record."""

from __future__ import annotations

from pipeline import params, records, soundness, store, supervise
from pipeline.levels import Sweep
from pipeline.readings import SpeedRecord
from pipeline.records import Status
from pipeline.runs.benchmark import Job
from pipeline.stages import _main
from pipeline.toolchains import environments

TIME_SHARE = 0.8
"""Of the stage's time limit, after which no more is begun: what was measured is worth more than what is missing."""


def main(variant: str) -> None:
    settings = params.load()
    _main.require_variant(settings, variant)
    refused = soundness.why_not(variant)
    record = (
        _failed(variant, refused)
        if refused
        else _main.attempt(lambda: _measure(variant, settings), lambda reason: _failed(variant, reason))
    )
    records.save(store.speed_record(variant), record)
    print(f"benchmark {variant}: {record.status}" + (f", {record.reason}" if record.reason else ""), flush=True)


def _measure(variant: str, settings: params.Params) -> SpeedRecord:
    pairing, runtime = settings.benchmark.pairing, settings.runtime
    engine, baseline_engine = (settings.variants[name].engine for name in (variant, settings.baseline))
    job = Job(
        variant=variant,
        engine=engine,
        python=environments.python_for("pipeline.engines", engine),
        baseline=settings.baseline,
        baseline_engine=baseline_engine,
        baseline_python=environments.python_for("pipeline.engines", baseline_engine),
        device=runtime.device,
        compute_dtype=runtime.compute_dtype.model_dump(),
        threads=runtime.threads,
        cores=runtime.cores,
        waiting=runtime.waiting,
        allocator=runtime.allocator,
        seed=settings.seed,
        workload=settings.decision.workload,
        sweep=Sweep(**settings.benchmark.sweep.model_dump()),
        time_limit_s=TIME_SHARE * settings.benchmark.timeout_s,
        **pairing.model_dump(),
    )
    result = supervise.run(
        "benchmark",
        job,
        title=f"benchmark {variant}",
        log=store.log("benchmark", variant),
        timeout_s=settings.benchmark.timeout_s,
        environment={},
    )
    if isinstance(result, supervise.Failure):
        return _failed(variant, result.reason)
    return SpeedRecord.model_validate(result)


def _failed(variant: str, reason: str) -> SpeedRecord:
    return SpeedRecord(variant=variant, status=Status.FAILED, reason=reason)


if __name__ == "__main__":
    _main.run(main)
