from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from pipeline import checkpoint, params, records, soundness, store, supervise
from pipeline.quality_records import FidelityRecord
from pipeline.records import Status
from pipeline.runs.fidelity import Job
from pipeline.stages import fidelity
from pipeline.toolchains import environments


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw_params: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    store.PARAMS.write_text(yaml.safe_dump(raw_params))


def compared(variant: str) -> FidelityRecord:
    fidelity.main(variant)
    return records.load(store.fidelity_record(variant), FidelityRecord)


def made(monkeypatch: pytest.MonkeyPatch, *variants: str) -> None:
    """Let these variants, and no others, have sound artifacts."""
    monkeypatch.setattr(soundness, "why_not", lambda variant: None if variant in variants else store.NO_ARTIFACT)


def ends(monkeypatch: pytest.MonkeyPatch, result: dict[str, Any] | supervise.Failure) -> list[tuple[Job, float]]:
    """Let the worker end so; returns what it is asked, as it will be, with its time limit."""
    asked: list[tuple[Job, float]] = []

    def run(name: str, job: Job, *, timeout_s: float, **_: Any) -> dict[str, Any] | supervise.Failure:
        assert name == "fidelity"
        asked.append((job, timeout_s))
        return result

    monkeypatch.setattr(supervise, "run", run)
    return asked


def test_without_its_artifact_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made(monkeypatch, "fp16")
    assert (compared("int8").status, compared("int8").reason) == (Status.FAILED, store.NO_ARTIFACT)


def test_without_the_baselines_artifact_a_variant_is_ok_and_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    made(monkeypatch, "int8")
    monkeypatch.setattr(checkpoint, "read_manifest", lambda folder: SimpleNamespace(artifact_sha256="a" * 64))
    record = compared("int8")
    assert record == FidelityRecord(variant="int8", status=Status.OK, artifact_sha256="a" * 64)


def test_a_worker_that_died_is_a_failed_record(monkeypatch: pytest.MonkeyPatch) -> None:
    made(monkeypatch, "fp16", "int8")
    ends(monkeypatch, supervise.Failure("killed", 1.0))
    record = compared("int8")
    assert (record.status, record.reason) == (Status.FAILED, "killed")


def test_the_workers_record_is_written_and_params_reach_it(
    monkeypatch: pytest.MonkeyPatch, raw_params: dict[str, Any]
) -> None:
    raw_params["fidelity"]["timeout_s"] = 77
    store.PARAMS.write_text(yaml.safe_dump(raw_params))
    made(monkeypatch, "fp16", "int8")
    wanted = FidelityRecord(variant="int8", status=Status.OK, kld_max=0.5)
    asked = ends(monkeypatch, wanted.model_dump(mode="json"))
    assert compared("int8") == wanted
    [(job, timeout_s)] = asked
    assert (job.variant, job.baseline, timeout_s) == ("int8", "fp16", 77)
    assert (job.engine, job.baseline_engine, job.device, job.threads) == ("transformers", "transformers", "auto", 2)
    assert job.compute_dtype == {"cpu": "bfloat16", "cuda": "float16"}


def test_each_side_has_its_own_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = params.load()
    other = settings.variants["int8"].model_copy(update={"engine": "another"})
    settings = settings.model_copy(update={"variants": settings.variants | {"int8": other}})
    monkeypatch.setattr(params, "load", lambda: settings)
    monkeypatch.setattr(environments, "python_for", lambda package, name: Path("/of") / package / name)
    made(monkeypatch, "fp16", "int8")
    asked = ends(monkeypatch, supervise.Failure("killed", 1.0))
    compared("int8")
    compared("fp16")
    engines = [(job.engine, job.baseline_engine) for job, _ in asked]
    assert engines == [("another", "transformers"), ("transformers", "transformers")]
    job = asked[0][0]
    assert (job.python, job.baseline_python) == (
        Path("/of/pipeline.engines/another"),
        Path("/of/pipeline.engines/transformers"),
    )
