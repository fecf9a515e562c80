"""A checkpoint folder on this machine, as `save_pretrained` writes it."""

from __future__ import annotations

from pathlib import Path

from pipeline import checkpoint, store
from pipeline.errors import UserError
from pipeline.sources import SourceSettings, save_as_fp16


class Settings(SourceSettings):
    path: str


def describe(settings: Settings) -> str:
    return f"local:{settings.path}"


def revision(settings: Settings) -> str:
    """Hash over the names and contents of the weight files."""
    files = sorted(Path(settings.path).glob("*.safetensors"))
    return store.sha256_json({path.name: store.sha256_file(path) for path in files})


def problems(settings: Settings) -> list[str]:
    folder = Path(settings.path)
    try:
        checkpoint.tensor_shapes(folder)
        checkpoint.context_length(folder)
    except UserError as error:
        return [f"model.source.path: {problem}" for problem in error.problems]
    return []


def fetch(settings: Settings, out: Path) -> None:
    save_as_fp16(settings.path, out, local_files_only=True, use_safetensors=True)
