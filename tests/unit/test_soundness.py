from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import checkpoint, records, soundness, store
from pipeline.artifact_records import QuantizeRecord
from pipeline.records import Status, known
from pipeline.smoke_records import SmokeRecord, SmokeVerdict

COLLAPSED = SmokeRecord(variant="int8", status=Status.INVALID, reason="collapsed: KLD 9.8 (at most 3)")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoint, "is_complete", store.artifact("int8").__eq__)


def test_without_its_artifact_a_variant_is_not_measured() -> None:
    assert soundness.why_not("int4") == store.NO_ARTIFACT


def test_one_that_nobody_looked_at_is_not_measured() -> None:
    assert soundness.why_not("int8") == soundness.UNCHECKED


def test_one_that_passed_is_measured() -> None:
    records.save(store.smoke_verdict("int8"), soundness.verdict(SmokeRecord(variant="int8", status=Status.OK)))
    assert soundness.why_not("int8") is None


def test_one_that_was_stopped_is_not_measured_and_the_reason_goes_on() -> None:
    records.save(store.smoke_verdict("int8"), soundness.verdict(COLLAPSED))
    assert soundness.why_not("int8") == f"not run: the smoke gate stopped it: {COLLAPSED.reason}"


def test_readings_of_a_variant_that_passed_do_not_change_its_verdict() -> None:
    """What later stages depend on is the verdict: they need not run again for another reading."""
    before = SmokeRecord(variant="int8", status=Status.OK, texts_sha256="a" * 64)
    after = SmokeRecord(variant="int8", status=Status.OK, texts_sha256="b" * 64)
    assert soundness.verdict(before) == soundness.verdict(after) == SmokeVerdict(reason=None)


def quantized(status: Status) -> None:
    record = QuantizeRecord(
        variant="int4",
        status=status,
        reason=None if status is Status.OK else "killed",
        quantizer="rtn",
        wall_s=1,
        peak_process_bytes=known(1),
    )
    records.save(store.quantize_record("int4"), record)


def test_quantizing_is_not_blamed_for_a_manifest_that_was_lost_afterwards() -> None:
    quantized(Status.OK)
    assert soundness.why_not("int4") == soundness.GONE
    assert "manifest.json" in soundness.GONE
    quantized(Status.FAILED)
    assert soundness.why_not("int4") == store.NO_ARTIFACT
