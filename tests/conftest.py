"""No test asks the hub or reports usage; the variables stand before anything imports those libraries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tiny

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["DVC_NO_ANALYTICS"] = "1"


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama's checkpoint, shared: read it, never write into it."""
    return tiny.build(tmp_path_factory.mktemp("tiny"))
