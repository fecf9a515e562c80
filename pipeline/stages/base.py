"""Make the base checkpoint in a fresh process, then check every variant's settings against its layers."""

from __future__ import annotations

import os

from pipeline import params, preflight, store, supervise
from pipeline.errors import UserError
from pipeline.runs.base import Job
from pipeline.stages import _main


def main() -> None:
    settings = params.load()
    model = settings.model
    kind, source = model.source_settings()
    result = supervise.run(
        "base",
        Job(name=model.name, licence=model.licence, provenance=model.provenance, kind=kind, source=source),
        title="base model",
        log=store.log("base", model.name),
        timeout_s=settings.quantize.timeout_s,
        # The only stage that may ask the hub.
        environment={"HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "0")},
    )
    if isinstance(result, supervise.Failure):
        raise UserError(f"the base model could not be made: {result.reason}")
    # Told now, a group size that does not fit costs half a minute, not the time of the quantizers before it.
    found = preflight.after_base_problems(settings)
    if found:
        raise UserError(found)


if __name__ == "__main__":
    _main.run(main)
