"""Checks of an artifact's files that need no engine: whether they are whole, and what they share with the base's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline import checkpoint, store
from pipeline.artifact_records import FileInfo, Manifest
from pipeline.errors import UserError
from pipeline.smoke_records import Check, failed, passed

TOKEN_SETTINGS = ("eos_token_id", "bos_token_id", "vocab_size")
"""What config.json says about tokens, which an engine follows where there is no generation config."""


def intact(folder: Path, manifest: Manifest) -> Check:
    """Whether every file is as it was when the artifact was made, and none has come since: engines obey some."""
    found = [words for name, info in manifest.files.items() if (words := _damage(folder / name, info))]
    there = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    found += [f"{name} is not in the manifest" for name in there if name not in {*manifest.files, store.MANIFEST}]
    if found:
        return failed("files", f"damaged since the artifact was made: {'; '.join(found)}")
    return passed("files", f"{len(manifest.files)} files have the hashes of the manifest")


def same_as_base(folder: Path, base: Path) -> Iterator[Check]:
    """One check for each kind of file that is taken over, and one for what config.json says about tokens."""
    for name, files in checkpoint.TAKEN_OVER.items():
        differing = [file for file in files if _sha256(folder / file) != _sha256(base / file)]
        if differing:
            yield failed(name, f"{name} differs from the base's: {', '.join(differing)}")
        else:
            yield passed(name, "equals the base's")
    yield _token_settings(folder, base)


def _damage(path: Path, info: FileInfo) -> str | None:
    if not path.is_file():
        return f"{path.name} is missing"
    size = path.stat().st_size
    if size != info.bytes:
        return f"{path.name} has {size} bytes instead of {info.bytes}"
    if store.sha256_file(path) != info.sha256:
        return f"{path.name} has other bytes than it had"
    return None


def _sha256(path: Path) -> str | None:
    return store.sha256_file(path) if path.is_file() else None


def _token_settings(folder: Path, base: Path) -> Check:
    name = "special tokens"
    try:
        ours, theirs = checkpoint.config(folder), checkpoint.config(base)
    except UserError as error:
        return failed(name, "; ".join(error.problems))
    differing = [
        f"{key} is {_value(ours, key)}, the base's is {wanted}"
        for key in TOKEN_SETTINGS
        if (wanted := _value(theirs, key)) is not None and _value(ours, key) != wanted
    ]
    if differing:
        return failed(name, f"config.json: {'; '.join(differing)}")
    return passed(name, f"{', '.join(TOKEN_SETTINGS)} equal the base's")


def _value(config: Mapping[str, Any], key: str) -> Any:
    """Where the model has more than a text part, the text part's; None where it is left to the model class."""
    text = config.get("text_config")
    value = config.get(key)
    return text.get(key) if value is None and isinstance(text, dict) else value
