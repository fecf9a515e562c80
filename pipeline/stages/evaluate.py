"""Score one variant on one eval set in a fresh process; a failure becomes its record."""

from __future__ import annotations

from pipeline import eval_sets, params, records, soundness, store, supervise
from pipeline.errors import UserError, nearest
from pipeline.probes import placement
from pipeline.quality_records import QualityRecord
from pipeline.records import Status
from pipeline.runs.evaluate import Job
from pipeline.stages import _main
from pipeline.toolchains import environments


def main(variant: str, eval_set: str) -> None:
    settings = params.load()
    _main.require_variant(settings, variant)
    if eval_set not in settings.eval_sets:
        raise UserError(f"no eval set {eval_set!r} in params.yaml; {nearest(eval_set, list(settings.eval_sets))}")
    refused = soundness.why_not(variant)
    record = (
        _failed(variant, eval_set, refused)
        if refused
        else _main.attempt(
            lambda: _evaluate(variant, eval_set, settings), lambda reason: _failed(variant, eval_set, reason)
        )
    )
    if record.status is not Status.OK:
        records.save_items(store.quality_items(variant, eval_set), [])
    records.save(store.quality_record(variant, eval_set), record)
    if record.status is Status.OK:
        store.unfinished(variant, eval_set).unlink(missing_ok=True)
    words = f", {record.reason}" if record.reason else ""
    print(f"evaluate {variant} on {eval_set}: {record.status}{words}", flush=True)


def _evaluate(variant: str, eval_set: str, settings: params.Params) -> QualityRecord:
    job = Job(
        variant=variant,
        engine=settings.variants[variant].engine,
        eval_set=eval_set,
        eval_set_version=eval_sets.read_card(eval_set).version,
        batch_size=settings.evaluate.batch_size,
        invariance_items=settings.evaluate.invariance_items,
        device=settings.runtime.device,
        compute_dtype=settings.runtime.compute_dtype.model_dump(),
        threads=settings.runtime.threads,
        seed=settings.seed,
        judge=settings.judge,
    )
    result = supervise.run(
        "evaluate",
        job,
        title=f"evaluate {variant} on {eval_set}",
        log=store.log("evaluate", f"{variant}-{eval_set}"),
        timeout_s=settings.evaluate.timeout_s,
        environment=placement.environment(settings.runtime.waiting, settings.runtime.allocator),
        cores=settings.runtime.cores,
        python=environments.python_for("pipeline.engines", job.engine),
    )
    if isinstance(result, supervise.Failure):
        return _failed(variant, eval_set, result.reason)
    return QualityRecord.model_validate(result)


def _failed(variant: str, eval_set: str, reason: str) -> QualityRecord:
    return QualityRecord(variant=variant, status=Status.FAILED, reason=reason, eval_set=eval_set)


if __name__ == "__main__":
    _main.run(main)
