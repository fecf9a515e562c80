"""Locks that uv resolves from wheels of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.toolchains.conftest import Make, wheel

from pipeline.errors import UserError
from pipeline.toolchains import locking

PIN = "tiny@000000000000"


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that uv takes for the only index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "uv.toml").write_text(f"[pip]\nno-index = true\nfind-links = [{str(folder)!r}]\n")
    monkeypatch.setenv("UV_CONFIG_FILE", str(tmp_path / "uv.toml"))
    return folder


@pytest.fixture(autouse=True)
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A quantizer that names the toolchain, and one that names another whose name begins alike."""
    folder = tmp_path / "quantizers"
    folder.mkdir()
    (folder / "mine.py").write_text(f'TOOLCHAIN = "{PIN}"\n')
    (folder / "other.py").write_text('TOOLCHAIN = "tiny-more@000000000000"\n')
    monkeypatch.setattr(locking, "PLUGINS", (folder,))
    return folder


def test_the_lock_holds_what_the_requirements_need(make: Make, index: Path) -> None:
    wheel(index, "tiny-only", requires=("helper",))
    wheel(index, "helper", "2.5")
    toolchain = make(requirements="tiny-only\n")
    locking.lock("tiny")
    assert toolchain.lock.read_text() == "helper==2.5\ntiny-only==1.0\n"


def test_what_the_folder_above_asks_for_comes_along(make: Make, index: Path) -> None:
    wheel(index, "helper", "2.5")
    toolchain = make(requirements="-r ../quantizer.in\n")
    (toolchain.requirements.parent.parent / "quantizer.in").write_text("helper>=2\n")
    locking.lock("tiny")
    assert toolchain.lock.read_text() == "helper==2.5\n"


def test_versions_stay_until_they_must_change(make: Make, index: Path) -> None:
    wheel(index, "helper", "2.5")
    wheel(index, "helper", "2.6")
    toolchain = make(requirements="helper\n", lock="helper==2.5\n")
    locking.lock("tiny")
    assert toolchain.lock.read_text() == "helper==2.5\n"
    toolchain.requirements.write_text("helper>2.5\n")
    locking.lock("tiny")
    assert toolchain.lock.read_text() == "helper==2.6\n"


def test_what_comes_with_torchs_cuda_build_is_left_out_unless_asked_for(make: Make, index: Path) -> None:
    of_cuda = ("nvidia-cublas", "triton", "cuda-bindings")
    wheel(index, "torch", requires=(*of_cuda, "nvidia-ml-py"))
    for name in (*of_cuda, "nvidia-ml-py"):
        wheel(index, name)
    toolchain = make(requirements="torch\n")
    locking.lock("tiny")
    assert toolchain.lock.read_text() == "nvidia-ml-py==1.0\ntorch==1.0\n"
    toolchain.requirements.write_text("torch\ntriton>=1\n")
    locking.lock("tiny")
    assert toolchain.lock.read_text() == "nvidia-ml-py==1.0\ntorch==1.0\ntriton==1.0\n"


def test_the_pin_is_renewed_where_the_toolchain_is_named(make: Make, plugins: Path, index: Path) -> None:
    wheel(index, "helper", "2.5")
    toolchain = make(requirements="helper\n")
    assert locking.lock("tiny") == [toolchain.lock, plugins / "mine.py"]
    assert (plugins / "mine.py").read_text() == f'TOOLCHAIN = "{toolchain.pin}"\n'
    assert "tiny-more@000000000000" in (plugins / "other.py").read_text()
    assert locking.lock("tiny") == []


def test_what_cannot_be_resolved_is_told_and_changes_nothing(make: Make, plugins: Path) -> None:
    toolchain = make(requirements="no-such\n", lock="a==1\n")
    with pytest.raises(UserError, match=r"uv could not resolve .*requirements\.in: .*no-such was not found"):
        locking.lock("tiny")
    assert toolchain.lock.read_text() == "a==1\n"
    assert PIN in (plugins / "mine.py").read_text()
