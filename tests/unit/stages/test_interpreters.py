"""Each stage's worker runs under the interpreter of its quantizer's or engine's toolchain, made before it starts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from pipeline import checkpoint, eval_sets, processes, records, soundness, store, supervise
from pipeline.artifact_records import QuantizeRecord
from pipeline.errors import UserError, WorkError
from pipeline.quality_records import FidelityRecord, QualityRecord
from pipeline.readings import SpeedRecord
from pipeline.records import Status
from pipeline.smoke_records import Reference, SmokeRecord
from pipeline.stages import _main, benchmark, evaluate, fidelity, quantize, reference, smoke
from pipeline.toolchains import environments

STAGES = {
    "quantize": lambda: quantize.main("int8"),
    "reference": lambda: reference.main(),
    "smoke": lambda: smoke.main("int8"),
    "evaluate": lambda: evaluate.main("int8", "support-desk"),
    "benchmark": lambda: benchmark.main("int8"),
    "fidelity": lambda: fidelity.main("int8"),
}
MADE = {
    "quantize": {"pipeline.quantizers/bitsandbytes_int8"},
    "reference": {"pipeline.engines/transformers"},
    "smoke": {"pipeline.engines/transformers"},
    "evaluate": {"pipeline.engines/transformers"},
    "benchmark": {"pipeline.engines/transformers"},
    "fidelity": {"pipeline.engines/transformers"},
}
RUNS_THERE = {"quantize", "reference", "smoke", "evaluate"}
"""Whose worker itself runs under that interpreter; the others start processes that do."""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw_params: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    store.PARAMS.write_text(yaml.safe_dump(raw_params))
    manifest = SimpleNamespace(artifact_sha256="a" * 64, format="safetensors")
    monkeypatch.setattr(checkpoint, "is_complete", lambda folder: True)
    monkeypatch.setattr(checkpoint, "read_manifest", lambda folder: manifest)
    monkeypatch.setattr(soundness, "why_not", lambda variant: None)
    monkeypatch.setattr(eval_sets, "read_card", lambda name: SimpleNamespace(version="1.0.0"))


@pytest.mark.parametrize("stage", STAGES)
def test_the_environment_is_made_before_the_workers_time_begins(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Any] = []

    def python_for(package: str, name: str) -> Path:
        events.append(f"{package}/{name}")
        return Path("/of") / package / name

    def run(name: str, job: Any, *, python: Path | None = None, **_: Any) -> supervise.Failure:
        events.append((python, getattr(job, "python", None), getattr(job, "baseline_python", None)))
        return supervise.Failure("killed", 1.0)

    monkeypatch.setattr(environments, "python_for", python_for)
    monkeypatch.setattr(supervise, "run", run)
    STAGES[stage]()
    *made, (itself, variant, baseline) = events
    assert set(made) == MADE[stage]
    expected = Path("/of") / next(iter(MADE[stage]))
    assert (itself, variant, baseline) == (
        (expected, None, None) if stage in RUNS_THERE else (None, expected, expected)
    )


RECORDS = {
    "quantize": lambda: records.load(store.quantize_record("int8"), QuantizeRecord),
    "reference": lambda: records.load(store.REFERENCE_RECORD, Reference),
    "smoke": lambda: records.load(store.smoke_record("int8"), SmokeRecord),
    "evaluate": lambda: records.load(store.quality_record("int8", "support-desk"), QualityRecord),
    "benchmark": lambda: records.load(store.speed_record("int8"), SpeedRecord),
    "fidelity": lambda: records.load(store.fidelity_record("int8"), FidelityRecord),
}


@pytest.mark.parametrize("stage", STAGES)
def test_an_environment_that_cannot_be_made_is_a_failure_that_says_what_to_do(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made out of a lock that nothing installs offline; the other variants go on, and `retry` runs it again."""

    def install(toolchain: object) -> Path:
        raise UserError(["out of reach", "run `quantgate toolchain install x` while online"])

    monkeypatch.setattr(environments, "python", install)
    weights = store.artifact("int8") / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.touch()
    STAGES[stage]()
    record = RECORDS[stage]()
    assert record.reason == "out of reach; run `quantgate toolchain install x` while online"
    assert getattr(record, "status", Status.FAILED) is Status.FAILED
    assert weights.exists() is (stage != "quantize"), "an artifact of old does not stand for one that failed"


@pytest.mark.parametrize("stage", STAGES)
def test_a_mistake_that_the_worker_finds_is_a_failure_with_all_problems(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise WorkError(["group_size 128 does not fit", "bits 5 do not exist"])

    monkeypatch.setattr(supervise, "run", run)
    STAGES[stage]()
    assert RECORDS[stage]().reason == "group_size 128 does not fit; bits 5 do not exist"


@pytest.mark.parametrize("stage", STAGES)
def test_cores_that_are_not_there_are_a_mistake_in_params_and_no_failure(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise UserError("runtime.cores: there is no core 99")

    monkeypatch.setattr(supervise, "run", run)
    with pytest.raises(UserError, match="no core 99"):
        STAGES[stage]()
    assert not store.REPORTS.exists(), "no row says that the variant failed"


@pytest.mark.parametrize("stage", sorted(set(STAGES) - {"reference"}))
def test_a_variant_that_params_does_not_have_is_a_mistake_with_the_nearest_name(stage: str) -> None:
    given = {"quantize": quantize, "smoke": smoke, "evaluate": evaluate, "benchmark": benchmark, "fidelity": fidelity}
    with pytest.raises(UserError, match=r"^no variant 'int88' in params.yaml; did you mean 'int8'\?$"):
        given[stage].main(*(["int88", "support-desk"] if stage == "evaluate" else ["int88"]))
    assert not store.REPORTS.exists()
    assert not store.artifact("int88").exists()


def test_an_eval_set_that_params_does_not_have_is_a_mistake_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"^no eval set 'suport-desk' in params.yaml; did you mean 'support-desk'\?$"):
        evaluate.main("int8", "suport-desk")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "stage quantize: 0 arguments given; it takes 1: python -m pipeline.stages.quantize VARIANT"),
        (["int8", "b"], "stage quantize: 2 arguments given; it takes 1: python -m pipeline.stages.quantize VARIANT"),
        (["int88"], "no variant 'int88' in params.yaml; did you mean 'int8'?"),
    ],
)
def test_a_wrong_command_line_exits_with_1_and_no_traceback(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["quantize", *arguments])
    monkeypatch.setattr(processes, "exit_on_signals", lambda: None)
    with pytest.raises(SystemExit) as caught:
        _main.run(quantize.main)
    assert caught.value.code == 1
    assert capsys.readouterr().err == f"error: {words}\n"
