"""A model on the Hugging Face hub, at one pinned commit."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import field_validator

from pipeline.errors import UserError
from pipeline.sources import SourceSettings, save_as_fp16


class Settings(SourceSettings):
    id: str
    """`organisation/model`."""
    revision: str
    """Full commit hash: a branch or tag can move under a finished comparison."""

    @field_validator("id")
    @classmethod
    def _is_hub_id(cls, value: str) -> str:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", value):
            raise ValueError("expected organisation/model")
        return value

    @field_validator("revision")
    @classmethod
    def _is_commit(cls, value: str) -> str:
        if not re.fullmatch(r"[0-9a-f]{40}", value):
            raise ValueError("expected the 40 hex digits of a commit; branches and tags can move")
        return value


def describe(settings: Settings) -> str:
    return f"hub:{settings.id}"


def revision(settings: Settings) -> str:
    return settings.revision


def problems(settings: Settings) -> list[str]:
    return []


def checkpoint_folder(settings: Settings) -> Path | None:
    return None


def fetch(settings: Settings, out: Path) -> None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    try:
        # *.json, tokenizer files and templates beside the weights; never pickled weights.
        snapshot = snapshot_download(
            settings.id,
            revision=settings.revision,
            allow_patterns=["*.safetensors", "*.json", "*.model", "*.jinja", "*.txt"],
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"model.source: cannot fetch {settings.id} at {settings.revision} from the hub ({first_line}). Check the "
            "id, the revision, your network and, for a gated model, `hf auth login`; or set HF_HUB_OFFLINE=0"
        ) from None
    save_as_fp16(snapshot, out, local_files_only=True, use_safetensors=True)
