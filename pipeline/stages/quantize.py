"""Make one variant's artifact in a fresh process; a failure becomes its record."""

from __future__ import annotations

import shutil
import time

from pipeline import params, plugins, records, store, supervise
from pipeline.artifact_records import QuantizeRecord
from pipeline.probes import placement
from pipeline.records import Status, missing
from pipeline.runs.quantize import Job
from pipeline.stages import _main
from pipeline.toolchains import environments


def main(variant: str) -> None:
    settings = params.load()
    _main.require_variant(settings, variant)
    out = store.artifact(variant)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    start = time.monotonic()
    record = _main.attempt(
        lambda: _quantize(variant, settings),
        lambda reason: _failed(variant, settings, reason, time.monotonic() - start),
    )
    if record.status is not Status.OK:
        # An artifact without manifest is not complete; an empty folder says so to people too.
        shutil.rmtree(out)
        out.mkdir()
    records.save(store.quantize_record(variant), record)
    print(f"quantize {variant}: {record.status}" + (f", {record.reason}" if record.reason else ""), flush=True)


def _quantize(variant: str, settings: params.Params) -> QuantizeRecord:
    wanted, runtime = settings.variants[variant], settings.runtime
    job = Job(
        variant=variant,
        quantizer=wanted.quantizer,
        settings=wanted.settings,
        device=runtime.device,
        compute_dtype=runtime.compute_dtype.model_dump(),
        threads=runtime.threads,
        seed=settings.seed,
    )
    result = supervise.run(
        "quantize",
        job,
        title=f"quantize {variant}",
        log=store.log("quantize", variant),
        timeout_s=settings.quantize.timeout_s,
        environment={
            **placement.environment(runtime.waiting, settings.quantize.allocator),
            **plugins.load("pipeline.quantizers", wanted.quantizer).ENVIRONMENT,
        },
        cores=runtime.cores,
        python=environments.python_for("pipeline.quantizers", wanted.quantizer),
    )
    if isinstance(result, supervise.Failure):
        return _failed(variant, settings, result.reason, result.wall_s)
    words = placement.words(runtime.threads, runtime.cores, runtime.waiting, settings.quantize.allocator)
    return QuantizeRecord.model_validate({**result, "worker": words})


def _failed(variant: str, settings: params.Params, reason: str, wall_s: float) -> QuantizeRecord:
    return QuantizeRecord(
        variant=variant,
        status=Status.FAILED,
        reason=reason,
        quantizer=settings.variants[variant].quantizer,
        wall_s=wall_s,
        peak_process_bytes=missing("the worker did not finish"),
    )


if __name__ == "__main__":
    _main.run(main)
