from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline import checkpoint, params, records, retry, store
from pipeline.errors import UserError
from pipeline.params import Params
from pipeline.quality_records import FidelityRecord, QualityRecord
from pipeline.readings import Alternation, SpeedRecord, Stop
from pipeline.records import QuantizeRecord, Status, missing


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
    monkeypatch.setattr(checkpoint, "is_complete", store.artifact("fp16").__eq__)
    assert retry.failed_stages(settings, []) == ["benchmark@int8"]


def test_named_variants_alone_are_looked_at(settings: Params) -> None:
    quantized("fp16", "it broke")
    quantized("int8", "it broke too")
    assert retry.failed_stages(settings, ["int8"]) == ["quantize@int8"]
    with pytest.raises(UserError, match=r"no variant 'int9' in params\.yaml; did you mean 'int8'"):
        retry.failed_stages(settings, ["int9"])


def test_what_never_ran_has_not_failed(settings: Params) -> None:
    assert retry.failed_stages(settings, []) == []
