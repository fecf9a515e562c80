"""The smoke gate's two stages, and that what it stops is not measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from pipeline import checkpoint, params, plugins, records, soundness, store, supervise
from pipeline.errors import UserError
from pipeline.quality_records import FidelityRecord, QualityRecord, load_items
from pipeline.readings import SpeedRecord
from pipeline.records import Outcome, Status
from pipeline.runs.reference import Job as ReferenceJob
from pipeline.runs.smoke import Job
from pipeline.smoke_records import Reference, SmokeRecord, SmokeVerdict
from pipeline.stages import benchmark, evaluate, fidelity, reference, smoke

REASON = "collapsed: KLD 9.8 (at most 3), top-1 agreement 0.1 % (at least 20 %)"
Ends = Callable[[str, dict[str, Any] | supervise.Failure], list[tuple[Any, float]]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw_params: dict[str, Any]) -> None:
    """A project whose variants all have artifacts, with a base in fp16 safetensors."""
    monkeypatch.chdir(tmp_path)
    store.PARAMS.write_text(yaml.safe_dump(raw_params))
    manifest = SimpleNamespace(artifact_sha256="a" * 64, format="safetensors")
    monkeypatch.setattr(checkpoint, "is_complete", lambda folder: True)
    monkeypatch.setattr(checkpoint, "read_manifest", lambda folder: manifest)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    """Let the worker of that name end so; returns what it is asked, as it will be, with its time limit."""

    def ending(wanted: str, result: dict[str, Any] | supervise.Failure) -> list[tuple[Any, float]]:
        asked: list[tuple[Any, float]] = []

        def run(name: str, job: Any, *, timeout_s: float, **_: Any) -> dict[str, Any] | supervise.Failure:
            assert name == wanted
            asked.append((job, timeout_s))
            return result

        monkeypatch.setattr(supervise, "run", run)
        return asked

    return ending


def checked(variant: str = "int8") -> SmokeRecord:
    smoke.main(variant)
    return records.load(store.smoke_record(variant), SmokeRecord)


def stopped(variant: str) -> None:
    record = SmokeRecord(variant=variant, status=Status.INVALID, reason=REASON)
    records.save(store.smoke_verdict(variant), soundness.verdict(record))


def passed(*variants: str) -> None:
    for variant in variants:
        records.save(store.smoke_verdict(variant), SmokeVerdict(reason=None))


# --- smoke -----------------------------------------------------------------------------------------------------


def test_without_its_artifact_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "is_complete", lambda folder: False)
    record = checked()
    assert (record.status, record.reason) == (Status.FAILED, store.NO_ARTIFACT)


def test_a_worker_that_died_is_a_failed_record_and_nothing_is_measured(ends: Ends) -> None:
    ends("smoke", supervise.Failure("killed", 1.0))
    record = checked()
    assert (record.status, record.reason) == (Status.FAILED, "killed")
    assert soundness.why_not("int8") == "not run: the smoke gate stopped it: killed"


def test_the_workers_record_is_written_with_its_verdict_and_params_reach_it(
    ends: Ends, raw_params: dict[str, Any]
) -> None:
    raw_params["smoke"] |= {"timeout_s": 77, "kld_max": 1.5, "top1_min": 0.4}
    store.PARAMS.write_text(yaml.safe_dump(raw_params))
    wanted = SmokeRecord(variant="int8", status=Status.OK, artifact_sha256="b" * 64)
    asked = ends("smoke", wanted.model_dump(mode="json"))
    assert checked() == wanted
    assert soundness.why_not("int8") is None
    [(job, timeout_s)] = asked
    assert timeout_s == 77
    assert job == Job(
        variant="int8",
        engine="transformers",
        device="auto",
        compute_dtype={"cpu": "bfloat16", "cuda": "float16"},
        threads=2,
        kld_max=1.5,
        top1_min=0.4,
    )


# --- reference -------------------------------------------------------------------------------------------------


def test_the_base_is_read_by_the_baselines_engine(ends: Ends) -> None:
    wanted = Reference(artifact_sha256="a" * 64)
    asked = ends("reference", wanted.model_dump(mode="json"))
    reference.main()
    assert records.load(store.REFERENCE_RECORD, Reference) == wanted
    [(job, timeout_s)] = asked
    assert timeout_s == 1800
    dtypes = {"cpu": "bfloat16", "cuda": "float16"}
    assert job == ReferenceJob(engine="transformers", device="auto", compute_dtype=dtypes, threads=2)


def test_a_baseline_whose_engine_cannot_load_the_base_leaves_it_to_one_that_can() -> None:
    settings = params.load()
    other = settings.variants["fp16"].model_copy(update={"engine": "another"})
    settings = settings.model_copy(update={"variants": settings.variants | {"fp16": other}})

    class Engines:
        FORMATS = frozenset({"gguf"})

    real = plugins.load
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "load", lambda package, name: Engines if name == "another" else real(package, name))
        assert reference.engine(settings) == "transformers"
        patch.setattr(plugins, "load", lambda package, name: Engines)
        with pytest.raises(UserError, match="no engine loads the base's format 'safetensors'; there are another, "):
            reference.engine(settings)


def test_a_base_that_cannot_be_read_is_written_down_and_the_stage_goes_on(ends: Ends) -> None:
    ends("reference", supervise.Failure("killed by SIGKILL", 1.0))
    reference.main()
    assert records.load(store.REFERENCE_RECORD, Reference).reason == "killed by SIGKILL"


# --- what comes after ------------------------------------------------------------------------------------------


def measured(variant: str) -> list[Outcome]:
    """The records of the stages that measure it, none of which may start a worker."""
    benchmark.main(variant)
    evaluate.main(variant, "support-desk")
    fidelity.main(variant)
    return [
        records.load(store.speed_record(variant), SpeedRecord),
        records.load(store.quality_record(variant, "support-desk"), QualityRecord),
        records.load(store.fidelity_record(variant), FidelityRecord),
    ]


def test_what_the_gate_stopped_is_not_measured_and_each_stage_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise AssertionError("began to measure")

    monkeypatch.setattr(supervise, "run", run)
    passed("fp16")
    stopped("int8")
    found = measured("int8")
    assert [record.status for record in found] == [Status.FAILED] * 3
    assert {record.reason for record in found} == {f"not run: the smoke gate stopped it: {REASON}"}
    assert load_items(store.quality_items("int8", "support-desk")) == []


def test_a_variant_is_not_to_blame_for_a_baseline_that_the_gate_stopped() -> None:
    stopped("fp16")
    passed("int8")
    fidelity.main("int8")
    record = records.load(store.fidelity_record("int8"), FidelityRecord)
    assert (record.status, record.blocks) == (Status.OK, [])
