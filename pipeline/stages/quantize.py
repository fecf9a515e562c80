"""Make one variant's artifact in a fresh process; a failure becomes its record."""

from __future__ import annotations

import shutil

from pipeline import params, plugins, records, store, supervise
from pipeline.artifact_records import QuantizeRecord
from pipeline.probes import placement
from pipeline.records import Status, missing
from pipeline.runs.quantize import Job
from pipeline.stages import _main
from pipeline.toolchains import environments


def main(variant: str) -> None:
    settings = params.load()
    wanted, runtime = settings.variants[variant], settings.runtime
    python = environments.python_for("pipeline.quantizers", wanted.quantizer)
    out = store.artifact(variant)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
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
        python=python,
    )
    if isinstance(result, supervise.Failure):
        # An artifact without manifest is not complete; an empty folder says so to people too.
        shutil.rmtree(out)
        out.mkdir()
        record = QuantizeRecord(
            variant=variant,
            status=Status.FAILED,
            reason=result.reason,
            quantizer=wanted.quantizer,
            wall_s=result.wall_s,
            peak_process_bytes=missing("the worker did not finish"),
        )
    else:
        words = placement.words(runtime.threads, runtime.cores, runtime.waiting, settings.quantize.allocator)
        record = QuantizeRecord.model_validate({**result, "worker": words})
    records.save(store.quantize_record(variant), record)
    print(f"quantize {variant}: {record.status}" + (f", {record.reason}" if record.reason else ""), flush=True)


if __name__ == "__main__":
    _main.run(main)
