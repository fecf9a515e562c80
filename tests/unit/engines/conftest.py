"""Tiny models, loaded: CPU, float32, so that equal work gives equal tokens."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from unit.engines import models
from unit.engines.prompts import Load

from pipeline.engines import EngineOptions
from pipeline.engines import transformers as engine
from pipeline.engines.transformers import TransformersSession


@pytest.fixture(scope="session")
def lively(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with eightfold weights: fresh ones hardly look back and repeat the prompt's last token."""
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path_factory.mktemp("lively") / "model"))
    tensors = load_file(folder / "model.safetensors")
    louder = {name: tensor * 8 if "_proj" in name else tensor for name, tensor in tensors.items()}
    save_file(louder, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def session(lively: Path) -> TransformersSession:
    return engine.load(lively, EngineOptions("cpu", "float32", 2))


@pytest.fixture(scope="session")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Checkpoints of the models that cannot read several prompts in one row, by name."""
    folder = tmp_path_factory.mktemp("others")
    return {name: models.save(config(), folder / name) for name, config in models.OTHERS.items()}


@pytest.fixture(params=["lively", *models.OTHERS])
def any_checkpoint(request: pytest.FixtureRequest, lively: Path, others: dict[str, Path]) -> Path:
    return ({"lively": lively} | others)[request.param]


@pytest.fixture
def any_session(any_checkpoint: Path) -> TransformersSession:
    return engine.load(any_checkpoint, EngineOptions("cpu", "float32", 2))


@pytest.fixture
def load(tmp_path: Path, lively: Path) -> Load:
    """Load a copy of a model, by default the lively one, with some keys of its generation config replaced."""

    def loaded(model: Path = lively, **generation: Any) -> TransformersSession:
        folder = Path(shutil.copytree(model, tmp_path / "copy", dirs_exist_ok=True))
        path = folder / "generation_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | generation))
        return engine.load(folder, EngineOptions("cpu", "float32", 2))

    return loaded
