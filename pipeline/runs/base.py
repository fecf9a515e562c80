"""Make the base checkpoint: fp16 safetensors, tokenizer, chat template, and the manifest last."""

from __future__ import annotations

import shutil
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline import checkpoint, plugins, store
from pipeline.artifact_records import BaseModelInfo, Manifest
from pipeline.errors import UserError

PACKAGES = ("transformers", "torch", "gguf")


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    licence: str
    provenance: str
    kind: str
    """A file in pipeline/sources."""
    source: dict[str, Any]


def run(job: Job) -> Manifest:
    source = plugins.load("pipeline.sources", job.kind)
    settings = source.Settings.model_validate(job.source)
    found = source.problems(settings)
    if found:
        raise UserError(found)
    shutil.rmtree(store.BASE, ignore_errors=True)
    store.BASE.mkdir(parents=True)
    source.fetch(settings, store.BASE)
    return checkpoint.write_manifest(
        store.BASE,
        name="base",
        base=BaseModelInfo(
            name=job.name,
            source=source.describe(settings),
            revision=source.revision(settings),
            licence=job.licence,
            provenance=job.provenance,
        ),
        quantizer=None,
        settings={},
        packages=checkpoint.package_versions(PACKAGES),
        format="safetensors",
        parameters=checkpoint.parameter_count(store.BASE),
        quantized_modules=[],
    )
