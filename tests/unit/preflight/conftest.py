from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from unit.preflight.projects import PARAMS
from unit.workspace import calibration_set, document, eval_set, write_yaml


@pytest.fixture
def project(tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which nothing is wrong; the base model is not made yet."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_checkpoint, tmp_path / "model")
    (tmp_path / "text.txt").write_text("some words")
    (tmp_path / "corpus.txt").write_text("some other words")
    eval_set(tmp_path)
    calibration_set(tmp_path, [document(1), document(2)])
    write_yaml(tmp_path / "params.yaml", PARAMS)
    return tmp_path
