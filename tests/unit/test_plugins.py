from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

import pipeline.quantizers
from pipeline import params_checks, plugins
from pipeline.errors import UserError

Write = Callable[..., None]
FOLDERS = ("engines", "quantizers", "sources")


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_files_of_the_folder_are_the_plugins(folder: str) -> None:
    files = (Path(pipeline.__file__).parent / folder).glob("[a-z]*.py")
    assert plugins.names(f"pipeline.{folder}") == sorted(path.stem for path in files)


WHOLE = """
from pipeline.quantizers import QuantizerSettings

FORMAT, PACKAGES, ENVIRONMENT, TOOLCHAIN = "safetensors", (), {}, None

class Settings(QuantizerSettings):
    pass

def check(settings, model):
    return []

def quantize(job):
    pass
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a quantizer's file, which then is one of the folder's."""
    monkeypatch.setattr(pipeline.quantizers, "__path__", [*pipeline.quantizers.__path__, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(text: str, name: str = "zeros") -> None:
        sys.modules.pop("pipeline.quantizers.zeros", None)
        importlib.invalidate_caches()
        (tmp_path / f"{name}.py").write_text(text)

    yield write
    sys.modules.pop("pipeline.quantizers.zeros", None)


def test_a_new_file_is_a_new_plugin(plugin: Write) -> None:
    plugin(WHOLE)
    plugin("", "_shared")
    assert "zeros" in plugins.names("pipeline.quantizers")
    assert "_shared" not in plugins.names("pipeline.quantizers")
    assert plugins.load("pipeline.quantizers", "zeros").FORMAT == "safetensors"


def test_everything_that_a_file_lacks_is_told_at_once(plugin: Write) -> None:
    plugin("FORMAT = 'safetensors'\nPACKAGES = 'torch'\ndef check(settings): ...\nclass Settings: ...\n")
    with pytest.raises(UserError) as caught:
        plugins.load("pipeline.quantizers", "zeros")
    place = "pipeline/quantizers/zeros.py"
    assert caught.value.problems == (
        f"{place}: PACKAGES is not a tuple of distribution names",
        f"{place}: ENVIRONMENT is missing; it must be environment variables by name",
        f"{place}: TOOLCHAIN is missing; it must be None, or the name of a toolchain with its pin",
        f"{place}: Settings is not a QuantizerSettings",
        f"{place}: check is not a function of (settings, model)",
        f"{place}: quantize is missing; it must be a function of (job)",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def quantize(job:\n", "SyntaxError: "),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("TOOLCHAIN = nothing\n", "NameError: name 'nothing' is not defined"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told(plugin: Write, text: str, words: str) -> None:
    plugin(text)
    [problem] = plugins.problems("pipeline.quantizers", "zeros")
    assert problem.startswith(f"pipeline/quantizers/zeros.py: cannot be imported: {words}")


def test_params_name_the_variant_of_a_faulty_file(plugin: Write) -> None:
    plugin(WHOLE.replace(", TOOLCHAIN", ", _").replace("def check", "def checks"))
    raw = {"variants": {"int2": {"quantizer": "zeros", "engine": "transformers"}}}
    place = "variants.int2.quantizer: pipeline/quantizers/zeros.py"
    assert list(params_checks._plugin_problems(raw)) == [
        f"{place}: TOOLCHAIN is missing; it must be None, or the name of a toolchain with its pin",
        f"{place}: check is missing; it must be a function of (settings, model)",
    ]


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
