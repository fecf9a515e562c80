from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline import params, records, retry, soundness, store
from pipeline.artifact_records import QuantizeRecord
from pipeline.errors import UserError
from pipeline.params import Params
from pipeline.quality_records import FidelityRecord, QualityRecord
from pipeline.readings import Alternation, SpeedRecord, Stop
from pipeline.records import Status, missing
from pipeline.smoke_records import Reference, SmokeRecord


@pytest.fixture
def settings(raw_params: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    monkeypatch.chdir(tmp_path)
    return params.parse(raw_params)


def quantized(variant: str, reason: str | None) -> None:
    record = QuantizeRecord(
        variant=variant,
        status=Status.FAILED if reason else Status.OK,
        reason=reason,
        quantizer="fp16",
        wall_s=1,
        peak_process_bytes=missing("not measured"),
    )
    records.save(store.quantize_record(variant), record)


def test_only_the_first_failed_stage_of_a_variant_is_forced(settings: Params) -> None:
    quantized("fp16", None)
    quantized("int8", "it broke")
    failed = SpeedRecord(variant="int8", status=Status.FAILED, reason=store.NO_ARTIFACT)
    records.save(store.speed_record("int8"), failed)
    assert retry.failed_stages(settings, []) == ["quantize@int8"]


def test_an_artifact_that_the_smoke_gate_stopped_is_made_anew_and_looked_at_again(settings: Params) -> None:
    quantized("int8", None)
    looked = SmokeRecord(variant="int8", status=Status.INVALID, reason="collapsed")
    records.save(store.smoke_record("int8"), looked)
    failed = SpeedRecord(variant="int8", status=Status.FAILED, reason="not run")
    records.save(store.speed_record("int8"), failed)
    assert retry.failed_stages(settings, []) == ["quantize@int8", "smoke@int8"]


def test_a_smoke_gate_that_died_is_run_again_on_the_same_artifact(settings: Params) -> None:
    quantized("int8", None)
    records.save(store.smoke_record("int8"), SmokeRecord(variant="int8", status=Status.FAILED, reason="killed"))
    assert retry.failed_stages(settings, []) == ["smoke@int8"]


def test_a_base_that_could_not_be_read_is_read_again_first(settings: Params) -> None:
    records.save(store.REFERENCE_RECORD, Reference(reason="killed", artifact_sha256="a" * 64))
    quantized("int8", "it broke")
    assert retry.failed_stages(settings, []) == ["reference", "quantize@int8"]
    records.save(store.REFERENCE_RECORD, Reference(artifact_sha256="a" * 64))
    assert retry.failed_stages(settings, []) == ["quantize@int8"]


def test_a_variant_that_was_made_but_not_measured_scored_or_compared_is_forced_there(settings: Params) -> None:
    quantized("fp16", None)
    (eval_set,) = settings.eval_sets
    records.save(store.speed_record("fp16"), SpeedRecord(variant="fp16", status=Status.INVALID, reason="wrong length"))
    scored = QualityRecord(variant="fp16", status=Status.FAILED, reason="killed", eval_set=eval_set)
    records.save(store.quality_record("fp16", eval_set), scored)
    compared = FidelityRecord(variant="fp16", status=Status.FAILED, reason="killed")
    records.save(store.fidelity_record("fp16"), compared)
    forced = ["benchmark@fp16", f"evaluate@fp16-{eval_set}", "fidelity@fp16"]
    assert retry.failed_stages(settings, []) == forced
    records.save(store.fidelity_record("fp16"), FidelityRecord(variant="fp16", status=Status.OK))
    assert retry.failed_stages(settings, []) == forced[:2]


def measured(variant: str, stop: Stop | None = Stop.PRECISE, alternation: Alternation = Alternation.RESIDENT) -> None:
    record = SpeedRecord(variant=variant, status=Status.OK, alternation=alternation, stop=stop)
    records.save(store.speed_record(variant), record)


def test_a_measurement_that_ended_early_is_forced_though_its_record_is_ok(settings: Params) -> None:
    measured("fp16")
    measured("int8", stop=None)
    assert retry.failed_stages(settings, []) == ["benchmark@int8"]
    measured("int8", stop=Stop.BUDGET)
    assert retry.failed_stages(settings, []) == []


def test_one_that_was_measured_alone_is_forced_where_there_is_a_baseline(
    settings: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured("int8", Stop.NO_PAIRS, Alternation.ALONE)
    assert retry.failed_stages(settings, []) == [], "the baseline has no artifact: making it comes first"
    monkeypatch.setattr(soundness, "why_not", lambda variant: None)
    assert retry.failed_stages(settings, []) == ["benchmark@int8"]


def test_named_variants_alone_are_looked_at(settings: Params) -> None:
    quantized("fp16", "it broke")
    quantized("int8", "it broke too")
    assert retry.failed_stages(settings, ["int8"]) == ["quantize@int8"]
    with pytest.raises(UserError, match=r"no variant 'int9' in params\.yaml; did you mean 'int8'"):
        retry.failed_stages(settings, ["int9"])


def test_what_never_ran_has_not_failed(settings: Params) -> None:
    assert retry.failed_stages(settings, []) == []


def test_what_never_ran_is_still_to_be_made(settings: Params) -> None:
    quantized("int8", None)
    eval_sets = [store.quality_record("int8", name) for name in settings.eval_sets]
    others = [store.smoke_record("int8"), store.speed_record("int8"), *eval_sets, store.fidelity_record("int8")]
    assert retry.unmade(settings, ["int8"]) == others
    assert retry.unmade(settings, []) == [
        *(Path(str(path).replace("int8", "fp16")) for path in [store.quantize_record("int8"), *others]),
        *others,
    ]
