from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from pydantic import BaseModel

import pipeline.quantizers
from pipeline import plugins

FOLDERS = ("engines", "quantizers", "sources")


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_files_of_the_folder_are_the_plugins(folder: str) -> None:
    files = (Path(pipeline.__file__).parent / folder).glob("[a-z]*.py")
    assert plugins.names(f"pipeline.{folder}") == sorted(path.stem for path in files)


def test_a_new_file_is_a_new_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zeros.py").write_text("FORMAT = 'safetensors'\n")
    (tmp_path / "_shared.py").write_text("")
    monkeypatch.setattr(pipeline.quantizers, "__path__", [*pipeline.quantizers.__path__, str(tmp_path)])
    assert "zeros" in plugins.names("pipeline.quantizers")
    assert "_shared" not in plugins.names("pipeline.quantizers")
    assert plugins.load("pipeline.quantizers", "zeros").FORMAT == "safetensors"


def parameters(function: object) -> list[str]:
    assert callable(function)
    return list(inspect.signature(function).parameters)


def test_every_quantizer_keeps_the_contract_of_the_folder() -> None:
    for name in plugins.names("pipeline.quantizers"):
        module = plugins.load("pipeline.quantizers", name)
        assert isinstance(module.FORMAT, str), name
        assert isinstance(module.PACKAGES, tuple), name
        assert all(isinstance(value, str) for pair in module.ENVIRONMENT.items() for value in pair), name
        assert issubclass(module.Settings, BaseModel), name
        assert module.Settings.model_config["frozen"], name
        assert module.Settings.model_config["extra"] == "forbid", name
        assert parameters(module.check) == ["settings", "model"], name
        assert module.TOOLCHAIN is None or isinstance(module.TOOLCHAIN, str), name
        assert parameters(module.quantize) == ["job"], name


def test_every_engine_keeps_the_contract_of_the_folder() -> None:
    for name in plugins.names("pipeline.engines"):
        module = plugins.load("pipeline.engines", name)
        assert isinstance(module.FORMATS, frozenset), name
        assert isinstance(module.TORCH_ALLOCATOR, bool), name
        assert isinstance(module.QUANTIZES_AT_LOAD, bool), name
        assert module.TOOLCHAIN is None or isinstance(module.TOOLCHAIN, str), name
        assert isinstance(module.PACKAGES, tuple), name
        assert parameters(module.load) == ["artifact", "options"], name


def test_every_source_keeps_the_contract_of_the_folder() -> None:
    for name in plugins.names("pipeline.sources"):
        module = plugins.load("pipeline.sources", name)
        assert issubclass(module.Settings, BaseModel), name
        for function in (module.describe, module.revision, module.problems):
            assert parameters(function) == ["settings"], name
        assert parameters(module.fetch) == ["settings", "out"], name


def test_every_format_that_a_quantizer_makes_is_loaded_by_an_engine() -> None:
    engines = [plugins.load("pipeline.engines", name) for name in plugins.names("pipeline.engines")]
    loaded = {format for engine in engines for format in engine.FORMATS}
    quantizers = [plugins.load("pipeline.quantizers", name) for name in plugins.names("pipeline.quantizers")]
    assert {quantizer.FORMAT for quantizer in quantizers} <= loaded
