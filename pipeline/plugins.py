"""Finding the one file of a quantizer, engine or model source by the name used in params.yaml.

The folder is the registry: `pipeline/quantizers/gptqmodel_awq.py` is the quantizer `gptqmodel_awq`. What each file of a
folder must define is looked at here, whoever loads it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from pipeline.errors import UserError, brief

Fits = Callable[[Any], bool]


def _of(*kinds: type) -> Fits:
    return lambda value: isinstance(value, kinds)


def _takes(*names: str) -> Fits:
    """A function that can be called with so many arguments by position."""

    def fits(value: Any) -> bool:
        try:
            inspect.signature(value).bind(*names)
        except (TypeError, ValueError):
            return False
        return True

    return fits


def _has(*names: str) -> Fits:
    """A class with these attributes."""
    return lambda value: isinstance(value, type) and all(hasattr(value, name) for name in names)


_TOOLCHAIN = ("None, or the name of a toolchain with its pin", _of(str, type(None)))
_PACKAGES = ("a tuple of distribution names", _of(tuple))
CONTRACTS: Mapping[str, Mapping[str, tuple[str, Fits]]] = {
    "pipeline.quantizers": {
        "FORMAT": ("the artifact's format, a text", _of(str)),
        "PACKAGES": _PACKAGES,
        "ENVIRONMENT": ("environment variables by name", _of(Mapping)),
        "TOOLCHAIN": _TOOLCHAIN,
        "Settings": ("a QuantizerSettings", _has("model_validate", "working_bytes", "stored_bytes", "kernel")),
        "check": ("a function of (settings, model)", _takes("settings", "model")),
        "quantize": ("a function of (job)", _takes("job")),
    },
    "pipeline.engines": {
        "FORMATS": ("a frozenset of formats", _of(frozenset)),
        "PACKAGES": _PACKAGES,
        "TOOLCHAIN": _TOOLCHAIN,
        "TORCH_ALLOCATOR": ("true or false", _of(bool)),
        "QUANTIZES_AT_LOAD": ("true or false", _of(bool)),
        "load": ("a function of (artifact, options)", _takes("artifact", "options")),
    },
    "pipeline.sources": {
        "Settings": ("a SourceSettings", _has("model_validate")),
        **{
            name: ("a function of (settings)", _takes("settings"))
            for name in ("describe", "revision", "problems", "checkpoint_folder")
        },
        "fetch": ("a function of (settings, out)", _takes("settings", "out")),
    },
}
"""Package → what each of its plugins defines: words on it, and whether a value is that."""


def names(package: str) -> list[str]:
    """Names of the plugins in a package such as `pipeline.quantizers`, sorted."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return sorted(module.name for module in found if not module.name.startswith("_"))


def load(package: str, name: str) -> ModuleType:
    """Import one plugin. The name must be one of `names(package)`; params.yaml is checked for that on reading.

    Raises:
        UserError: the file cannot be imported, or lacks something that the files of its folder define.
    """
    place = f"{package.replace('.', '/')}/{name}.py"
    try:
        module = importlib.import_module(f"{package}.{name}")
    except Exception as error:
        raise UserError(f"{place}: cannot be imported: {brief(error)}") from error
    faults = [
        f"{place}: {attribute} {'is not' if hasattr(module, attribute) else 'is missing; it must be'} {words}"
        for attribute, (words, fits) in CONTRACTS.get(package, {}).items()
        if not (hasattr(module, attribute) and fits(getattr(module, attribute)))
    ]
    if faults:
        raise UserError(faults)
    return module


def problems(package: str, name: str) -> list[str]:
    """Why `load` would not give the plugin; empty where it would."""
    try:
        load(package, name)
    except UserError as error:
        return list(error.problems)
    return []
