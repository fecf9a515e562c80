"""Read the smoke gate's texts and answer its prompts with the base model, once for all variants."""

from __future__ import annotations

import numpy
from pydantic import BaseModel, ConfigDict

from pipeline import checkpoint, engines, records, smoke_reading, store
from pipeline.engines import EngineOptions, misplaced_reason
from pipeline.probes import device
from pipeline.records import EngineInfo
from pipeline.smoke_records import Reference, SmokeTexts


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: str
    device: str
    compute_dtype: dict[str, str]
    threads: int


def run(job: Job) -> Reference:
    """Write the base's logits at the scored positions, [positions, vocabulary] in float32; returns the rest."""
    artifact_sha256 = checkpoint.read_manifest(store.BASE).artifact_sha256
    texts = records.load(store.SMOKE_TEXTS, SmokeTexts)
    on = device.resolve(job.device)
    session = engines.load(job.engine, store.BASE, EngineOptions(on, job.compute_dtype[on], job.threads))
    if misplaced := session.misplaced():
        return _unread(artifact_sha256, session.info(), misplaced_reason(misplaced, on))
    logits = numpy.concatenate(list(smoke_reading.scored_logits(session, texts.windows)))
    if not numpy.isfinite(logits).all():
        return _unread(artifact_sha256, session.info(), "its logits are not finite numbers")
    numpy.save(store.REFERENCE_LOGITS, logits)
    return Reference(
        artifact_sha256=artifact_sha256,
        engine=session.info(),
        broken_weights=session.broken_weights() or {},
        answers=smoke_reading.answers(session, texts.prompts),
    )


def _unread(artifact_sha256: str, engine: EngineInfo, reason: str) -> Reference:
    return Reference(reason=reason, artifact_sha256=artifact_sha256, engine=engine)
