"""Which engine an artifact is given to, and which artifacts it may be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.runs.jobs import base_job

from pipeline import checkpoint, engines, records, store
from pipeline.engines import EngineOptions, NotQuantized, llama_cpp, transformers
from pipeline.runs import base

OPTIONS = EngineOptions("cpu", "float32", 1)


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A complete checkpoint; either engine loads nothing, and tells its name and what it was given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(tiny_checkpoint)
    base.run(base_job())
    for engine in (llama_cpp, transformers):
        monkeypatch.setattr(engine, "load", lambda *given, name=engine.__name__: (name, *given))
    return store.BASE


def quantized_at_load(folder: Path) -> None:
    manifest = checkpoint.read_manifest(folder)
    records.save(folder / store.MANIFEST, manifest.model_copy(update={"at_load": "asked for"}))


def load(name: str, folder: Path) -> Any:
    return engines.load(name, folder, OPTIONS)


def test_the_engine_of_that_name_loads_the_artifact(folder: Path) -> None:
    for name in ("llama_cpp", "transformers"):
        assert load(name, folder) == (f"pipeline.engines.{name}", folder, OPTIONS)


def test_weights_to_be_quantized_at_load_are_refused_by_what_the_engine_declares(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quantized_at_load(folder)
    assert load("transformers", folder)[0] == transformers.__name__
    with pytest.raises(NotQuantized, match=r"^engine 'llama_cpp' does not quantize .*\(asked for\); measure it with"):
        load("llama_cpp", folder)
    monkeypatch.setattr(llama_cpp, "QUANTIZES_AT_LOAD", True)
    assert load("llama_cpp", folder)[0] == llama_cpp.__name__


def test_each_engine_says_whose_memory_it_takes() -> None:
    assert engines.torch_allocator("transformers")
    assert not engines.torch_allocator("llama_cpp")
