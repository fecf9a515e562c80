"""Whether a variant may be measured: its artifact is complete, and the smoke gate let it pass."""

from __future__ import annotations

from pipeline import checkpoint, records, store
from pipeline.smoke_records import SmokeRecord, SmokeVerdict

UNCHECKED = "not run: the smoke gate has not looked at the artifact"


def why_not(variant: str) -> str | None:
    """Why the variant must not be measured; None where it may."""
    if not checkpoint.is_complete(store.artifact(variant)):
        return store.NO_ARTIFACT
    path = store.smoke_verdict(variant)
    return records.load(path, SmokeVerdict).reason if path.exists() else UNCHECKED


def verdict(record: SmokeRecord) -> SmokeVerdict:
    reason = f"not run: the smoke gate stopped it: {record.reason}" if record.reason else None
    return SmokeVerdict(reason=reason)
