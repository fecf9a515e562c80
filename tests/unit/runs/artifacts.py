"""Artifacts damaged on purpose, and what the smoke gate says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline import checkpoint
from pipeline.artifact_records import Manifest
from pipeline.records import Status
from pipeline.smoke_records import CheckOutcome, SmokeRecord

Tensors = dict[str, Any]
DOWN = "model.layers.1.mlp.down_proj.weight"


def sign(folder: Path) -> None:
    """Write the manifest anew, as a quantizer that made the files as they are now."""
    given = checkpoint.read_manifest(folder)
    kept = set(Manifest.model_fields) - {
        "files",
        "artifact_sha256",
        "weight_bytes",
        "bits_per_weight",
        "schema_version",
    }
    kept -= {"tokenizer_sha256", "chat_template_sha256", "context_length"}
    checkpoint.write_manifest(folder, **{name: getattr(given, name) for name in kept})


def change(folder: Path, edit: Callable[[Tensors], None]) -> None:
    """Edit the weights, as a quantizer that did so."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    sign(folder)


def outcomes(record: SmokeRecord) -> dict[str, CheckOutcome]:
    return {check.name: check.outcome for check in record.checks}


def failures(record: SmokeRecord) -> list[str]:
    """Names of the failed checks of a record that is INVALID for them."""
    failed = [check for check in record.checks if check.outcome is CheckOutcome.FAILED]
    assert record.status is (Status.INVALID if failed else Status.OK)
    assert record.reason == ("; ".join(check.words for check in failed) or None)
    return [check.name for check in failed]


def reading(record: SmokeRecord, check: str, name: str) -> float:
    [found] = [found for found in record.checks if found.name == check]
    value = found.readings[name].value
    assert value is not None
    return value


def edit_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
