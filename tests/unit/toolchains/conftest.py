"""Toolchains of the test's own, whose packages are local files: no package index is asked."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline import toolchains
from pipeline.toolchains import Toolchain
from pipeline.toolchains.environments import THIS_VERSION

DESCRIPTION: dict[str, Any] = {
    "purpose": "for tests",
    "python": [THIS_VERSION],
    "download_gib": 0.1,
    "disk_gib": 0.2,
    "modules": ["tiny_only"],
}

Make = Callable[..., Toolchain]


def wheel(folder: Path, name: str, version: str = "1.0", requires: tuple[str, ...] = ()) -> Path:
    """A wheel with one module, named like the distribution with underscores."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    path = folder / f"{module}-{version}-py3-none-any.whl"
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        *(f"Requires-Dist: {r}\n" for r in requires),
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{module}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{info}/METADATA", "".join(metadata))
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder's own folder of toolchains."""
    monkeypatch.setenv("QUANTGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "toolchains"


@pytest.fixture
def make(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Writes a toolchain and loads it; there are no others."""
    monkeypatch.setattr(toolchains, "FOLDER", tmp_path / "toolchains")
    monkeypatch.setenv("TORCH_BACKEND", "cpu")

    def made(name: str = "tiny", lock: str = "", requirements: str = "", **changes: Any) -> Toolchain:
        folder = tmp_path / "toolchains" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "toolchain.yaml").write_text(yaml.safe_dump(DESCRIPTION | changes))
        (folder / "requirements.in").write_text(requirements)
        (folder / "requirements.lock").write_text(lock)
        return toolchains.load(name)

    return made
