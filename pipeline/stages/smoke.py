"""Look at one variant's artifact before anything is measured on it, in a fresh process; failures become its record."""

from __future__ import annotations

from pipeline import params, records, soundness, store, supervise
from pipeline.probes import placement
from pipeline.records import Status
from pipeline.runs.smoke import Job
from pipeline.smoke_records import SmokeRecord
from pipeline.stages import _main
from pipeline.toolchains import environments


def main(variant: str) -> None:
    settings = params.load()
    _main.require_variant(settings, variant)
    absent = soundness.no_artifact(variant)
    record = (
        _failed(variant, absent)
        if absent
        else _main.attempt(lambda: _check(variant, settings), lambda reason: _failed(variant, reason))
    )
    records.save(store.smoke_record(variant), record)
    records.save(store.smoke_verdict(variant), soundness.verdict(record))
    print(f"smoke {variant}: {record.status}" + (f", {record.reason}" if record.reason else ""), flush=True)


def _check(variant: str, settings: params.Params) -> SmokeRecord:
    runtime, smoke = settings.runtime, settings.smoke
    job = Job(
        variant=variant,
        engine=settings.variants[variant].engine,
        device=runtime.device,
        compute_dtype=runtime.compute_dtype.model_dump(),
        threads=runtime.threads,
        kld_max=smoke.kld_max,
        top1_min=smoke.top1_min,
    )
    result = supervise.run(
        "smoke",
        job,
        title=f"smoke {variant}",
        log=store.log("smoke", variant),
        timeout_s=smoke.timeout_s,
        environment=placement.environment(runtime.waiting, runtime.allocator),
        cores=runtime.cores,
        python=environments.python_for("pipeline.engines", job.engine),
    )
    if isinstance(result, supervise.Failure):
        return _failed(variant, result.reason)
    return SmokeRecord.model_validate(result)


def _failed(variant: str, reason: str) -> SmokeRecord:
    return SmokeRecord(variant=variant, status=Status.FAILED, reason=reason)


if __name__ == "__main__":
    _main.run(main)
