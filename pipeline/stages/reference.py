"""Read the smoke gate's texts with the base model in a fresh process, once; that it fails is no variant's fault."""

from __future__ import annotations

from pipeline import checkpoint, params, plugins, records, store, supervise
from pipeline.errors import UserError
from pipeline.probes import placement
from pipeline.runs.reference import Job
from pipeline.smoke_records import Reference
from pipeline.stages import _main
from pipeline.toolchains import environments


def main() -> None:
    settings = params.load()
    store.REFERENCE.mkdir(parents=True, exist_ok=True)
    name = engine(settings)
    record = _main.attempt(lambda: _read(name, settings), _unread)
    records.save(store.REFERENCE_RECORD, record)
    print(f"reference: {record.reason or 'ok'}", flush=True)


def _read(name: str, settings: params.Params) -> Reference:
    runtime = settings.runtime
    job = Job(
        engine=name,
        device=runtime.device,
        compute_dtype=runtime.compute_dtype.model_dump(),
        threads=runtime.threads,
    )
    result = supervise.run(
        "reference",
        job,
        title="reference",
        log=store.log("reference", "base"),
        timeout_s=settings.smoke.timeout_s,
        environment=placement.environment(runtime.waiting, runtime.allocator),
        cores=runtime.cores,
        python=environments.python_for("pipeline.engines", job.engine),
    )
    if isinstance(result, supervise.Failure):
        return _unread(result.reason)
    return Reference.model_validate(result)


def _unread(reason: str) -> Reference:
    return Reference(reason=reason, artifact_sha256=checkpoint.read_manifest(store.BASE).artifact_sha256)


def engine(settings: params.Params) -> str:
    """The baseline's engine where it loads the base checkpoint's format, else the first that does.

    Raises:
        UserError: no engine does.
    """
    wanted = checkpoint.read_manifest(store.BASE).format
    names = [settings.variants[settings.baseline].engine, *plugins.names("pipeline.engines")]
    loading = (name for name in names if wanted in plugins.load("pipeline.engines", name).FORMATS)
    found = next(loading, None)
    if found is None:
        raise UserError(f"no engine loads the base's format {wanted!r}; there are {', '.join(sorted(set(names)))}")
    return found


if __name__ == "__main__":
    _main.run(main)
