"""Compare one variant's distributions with the baseline's in a fresh process; a failure becomes its record."""

from __future__ import annotations

from pipeline import checkpoint, params, records, soundness, store, supervise
from pipeline.probes import placement
from pipeline.quality_records import FidelityRecord
from pipeline.records import Status
from pipeline.runs.fidelity import Job
from pipeline.stages import _main
from pipeline.toolchains import environments


def main(variant: str) -> None:
    settings = params.load()
    _main.require_variant(settings, variant)
    record = _main.attempt(lambda: _compare(variant, settings), lambda reason: _failed(variant, reason))
    records.save(store.fidelity_record(variant), record)
    print(f"fidelity {variant}: {record.status}" + (f", {record.reason}" if record.reason else ""), flush=True)


def _compare(variant: str, settings: params.Params) -> FidelityRecord:
    runtime, baseline = settings.runtime, settings.baseline
    if refused := soundness.why_not(variant):
        return _failed(variant, refused)
    if soundness.why_not(baseline):
        # As in the benchmark, a variant is not to blame for its baseline: its record is ok, and compares nothing.
        artifact_sha256 = checkpoint.read_manifest(store.artifact(variant)).artifact_sha256
        return FidelityRecord(variant=variant, status=Status.OK, artifact_sha256=artifact_sha256)
    engine, baseline_engine = settings.variants[variant].engine, settings.variants[baseline].engine
    job = Job(
        variant=variant,
        engine=engine,
        python=environments.python_for("pipeline.engines", engine),
        baseline=baseline,
        baseline_engine=baseline_engine,
        baseline_python=environments.python_for("pipeline.engines", baseline_engine),
        device=runtime.device,
        compute_dtype=runtime.compute_dtype.model_dump(),
        threads=runtime.threads,
        timeout_s=settings.fidelity.timeout_s,
    )
    result = supervise.run(
        "fidelity",
        job,
        title=f"fidelity {variant}",
        log=store.log("fidelity", variant),
        timeout_s=settings.fidelity.timeout_s,
        environment=placement.environment(runtime.waiting, runtime.allocator),
        cores=runtime.cores,
    )
    if isinstance(result, supervise.Failure):
        return _failed(variant, result.reason)
    return FidelityRecord.model_validate(result)


def _failed(variant: str, reason: str) -> FidelityRecord:
    return FidelityRecord(variant=variant, status=Status.FAILED, reason=reason)


if __name__ == "__main__":
    _main.run(main)
