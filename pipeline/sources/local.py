"""A checkpoint folder on this machine, as `save_pretrained` writes it."""

from __future__ import annotations

from pathlib import Path

from pipeline import checkpoint, store
from pipeline.errors import UserError
from pipeline.sources import SourceSettings, save_as_fp16

CONTENT = {".safetensors", ".json", ".jinja", ".model", ".txt"}


class Settings(SourceSettings):
    path: str


def describe(settings: Settings) -> str:
    return f"local:{settings.path}"


def revision(settings: Settings) -> str:
    """Hash over the names and contents of all that makes the model: weights, configs, tokenizer, chat template."""
    files = sorted(path for path in Path(settings.path).iterdir() if path.suffix in CONTENT)
    return store.sha256_json({path.name: store.sha256_file(path) for path in files})


def problems(settings: Settings) -> list[str]:
    folder = Path(settings.path)
    try:
        checkpoint.tensor_shapes(folder)
        checkpoint.context_length(folder)
    except UserError as error:
        return [f"model.source.path: {problem}" for problem in error.problems]
    if not (folder / "tokenizer.json").is_file() and not (folder / "tokenizer.model").is_file():
        return [f"model.source.path: {folder} holds no tokenizer.json or tokenizer.model"]
    try:
        has_template = _has_chat_template(folder)
    except ValueError as error:
        return [f"model.source.path: {folder / 'tokenizer_config.json'}: not JSON ({error})"]
    if not has_template:
        return [
            f"model.source.path: {folder} has no chat template, which eval sets and chat calibration samples need; "
            "add a chat_template.jinja there"
        ]
    return []


def checkpoint_folder(settings: Settings) -> Path | None:
    return Path(settings.path)


def _has_chat_template(folder: Path) -> bool:
    config = folder / "tokenizer_config.json"
    inline = config.is_file() and "chat_template" in store.read_json(config)
    return inline or (folder / checkpoint.CHAT_TEMPLATE_FILE).is_file()


def fetch(settings: Settings, out: Path) -> None:
    save_as_fp16(settings.path, out, local_files_only=True, use_safetensors=True)
