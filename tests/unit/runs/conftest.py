"""A project whose base model, prompts and fp16 artifact the runs themselves have made, in this process."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest
from unit.runs.jobs import base_job, prompts_job, quantize_job, reference_job
from unit.workspace import calibration_set, document, eval_set

from pipeline import records, store
from pipeline.records import Environment
from pipeline.runs import base, prompts, quantize, reference
from pipeline.smoke_records import SmokeVerdict


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(tiny_checkpoint, folder / "model")
    (folder / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 20)
    (folder / "corpus.txt").write_text("A heron stood in the shallow river, waiting for the fish to come back. " * 20)
    eval_set(folder)
    calibration_set(folder, [document(number) for number in range(4)])
    environment = Environment(
        os="Linux", python="3.11", cpu="x", cpu_cores=2, memory_bytes=1, gpus=[], gpu_reason="none", packages={}
    )
    with contextlib.chdir(folder):
        records.save(store.ENVIRONMENT, environment)
        base.run(base_job())
        prompts.run(prompts_job())
        store.artifact("one").mkdir(parents=True)
        quantize.run(quantize_job())
        records.save(store.smoke_verdict("one"), SmokeVerdict(reason=None))
    return folder


@pytest.fixture
def project(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project as working directory."""
    folder = Path(shutil.copytree(made, tmp_path / "project"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def read(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of `made`, with what the base gave for the smoke gate."""
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("read") / "project"))
    with contextlib.chdir(folder):
        store.REFERENCE.mkdir()
        records.save(store.REFERENCE_RECORD, reference.run(reference_job()))
    return folder


@pytest.fixture
def artifact(read: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fp16 artifact of a copy of that project, which is the working directory."""
    monkeypatch.chdir(shutil.copytree(read, tmp_path / "project"))
    return store.artifact("one")
