"""Finding the one file of a quantizer, engine or model source by the name used in params.yaml.

The folder is the registry: `pipeline/quantizers/gptqmodel_awq.py` is the quantizer `gptqmodel_awq`.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def names(package: str) -> list[str]:
    """Names of the plugins in a package such as `pipeline.quantizers`, sorted."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return sorted(module.name for module in found if not module.name.startswith("_"))


def load(package: str, name: str) -> ModuleType:
    """Import one plugin. The name must be one of `names(package)`; params.yaml is checked for that on reading."""
    return importlib.import_module(f"{package}.{name}")
