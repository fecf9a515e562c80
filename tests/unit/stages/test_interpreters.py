"""Each stage's worker runs under the interpreter of its quantizer's or engine's toolchain, made before it starts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from pipeline import checkpoint, eval_sets, soundness, store, supervise
from pipeline.errors import UserError
from pipeline.stages import benchmark, evaluate, fidelity, quantize, reference, smoke
from pipeline.toolchains import environments

STAGES = {
    "quantize": lambda: quantize.main("int8"),
    "reference": lambda: reference.main(),
    "smoke": lambda: smoke.main("int8"),
    "evaluate": lambda: evaluate.main("int8", "support"),
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


@pytest.mark.parametrize("stage", STAGES)
def test_an_environment_that_cannot_be_made_stops_the_stage_and_leaves_what_was_there(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def python_for(package: str, name: str) -> Path:
        raise UserError("out of reach")

    monkeypatch.setattr(environments, "python_for", python_for)
    weights = store.artifact("int8") / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.touch()
    with pytest.raises(UserError, match="out of reach"):
        STAGES[stage]()
    assert weights.exists()
    assert not store.REPORTS.exists(), "no row says that the variant failed"
