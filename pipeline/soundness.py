"""Whether a variant may be measured: its artifact is complete, and the smoke gate let it pass."""

from __future__ import annotations

from pipeline import checkpoint, records, store
from pipeline.artifact_records import QuantizeRecord
from pipeline.records import Status
from pipeline.smoke_records import SmokeRecord, SmokeVerdict

GONE = (
    f"not run: the variant was quantized, but its artifact has lost {store.MANIFEST}, which marks it as complete; run "
    "`dvc repro` to make it anew"
)
UNCHECKED = "not run: the smoke gate has not looked at the artifact"


def why_not(variant: str) -> str | None:
    """Why the variant must not be measured; None where it may."""
    if absent := no_artifact(variant):
        return absent
    path = store.smoke_verdict(variant)
    return records.load(path, SmokeVerdict).reason if path.exists() else UNCHECKED


def no_artifact(variant: str) -> str | None:
    """Why there is no complete artifact; None where there is one."""
    if checkpoint.is_complete(store.artifact(variant)):
        return None
    path = store.quantize_record(variant)
    if path.exists() and records.load(path, QuantizeRecord).status is Status.OK:
        return GONE
    return store.NO_ARTIFACT


def verdict(record: SmokeRecord) -> SmokeVerdict:
    reason = f"not run: the smoke gate stopped it: {record.reason}" if record.reason else None
    return SmokeVerdict(reason=reason)
