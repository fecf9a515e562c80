from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder without eval sets as working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").touch()
    return tmp_path
