from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project folder as working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
