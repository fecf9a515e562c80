"""Every path of a project folder, atomic writes, and hashing.

Paths are relative to the folder that holds params.yaml, which is where DVC runs each stage.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PARAMS = Path("params.yaml")
EVAL_SETS = Path("eval_sets")
CALIBRATION = Path("calibration")
ARTIFACTS = Path("artifacts")
REPORTS = Path("reports")
LOGS = Path("logs")

BASE = ARTIFACTS / "base"
PROMPTS = ARTIFACTS / "prompts"
WORKLOAD_PROMPTS = PROMPTS / "workloads.json"
FIDELITY_PROMPT = PROMPTS / "fidelity.json"
SMOKE_TEXTS = PROMPTS / "smoke.json"
REFERENCE = ARTIFACTS / "reference"
REFERENCE_RECORD = REFERENCE / "reference.json"
REFERENCE_LOGITS = REFERENCE / "logits.npy"
VARIANTS = ARTIFACTS / "variants"
SMOKE_VERDICTS = ARTIFACTS / "smoke"
ENVIRONMENT = REPORTS / "environment.json"
SOURCE = REPORTS / "source.json"
QUANTIZE_RECORDS = REPORTS / "quantize"
SMOKE_RECORDS = REPORTS / "smoke"
SPEED_RECORDS = REPORTS / "speed"
QUALITY_RECORDS = REPORTS / "quality"
FIDELITY_RECORDS = REPORTS / "fidelity"
UNFINISHED = ARTIFACTS / "unfinished"
"""What a stage that was stopped had done so far; no output of a stage, so that DVC leaves it alone."""

MANIFEST = "manifest.json"

NO_ARTIFACT = "not run: the variant has no complete artifact, since quantizing it failed"


def artifact(variant: str) -> Path:
    return VARIANTS / variant


def quantize_record(variant: str) -> Path:
    return QUANTIZE_RECORDS / f"{variant}.json"


def smoke_record(variant: str) -> Path:
    return SMOKE_RECORDS / f"{variant}.json"


def smoke_verdict(variant: str) -> Path:
    return SMOKE_VERDICTS / f"{variant}.json"


def speed_record(variant: str) -> Path:
    return SPEED_RECORDS / f"{variant}.json"


def quality_record(variant: str, eval_set: str) -> Path:
    return QUALITY_RECORDS / variant / f"{eval_set}.json"


def quality_items(variant: str, eval_set: str) -> Path:
    return QUALITY_RECORDS / variant / f"{eval_set}.items.jsonl"


def unfinished(variant: str, eval_set: str) -> Path:
    return UNFINISHED / variant / f"{eval_set}.jsonl"


def fidelity_record(variant: str) -> Path:
    return FIDELITY_RECORDS / f"{variant}.json"


def eval_set_prompts(eval_set: str) -> Path:
    return PROMPTS / f"{eval_set}.jsonl"


def log(stage: str, name: str) -> Path:
    return LOGS / f"{stage}-{name}.log"


def write_text(path: Path, text: str) -> None:
    """Write all of `text` or nothing: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def to_json(value: Any) -> str:
    """Stable, indented JSON. NaN and Infinity raise ValueError: missing is null, with a reason."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    write_text(path, to_json(value))


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    write_text(path, "".join(lines))


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def read_lines(path: Path) -> list[str]:
    """Non-empty lines by line feeds alone: JSON texts may hold U+2028 and others that `str.splitlines` cuts at."""
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def sha256_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def sha256_json(value: Any) -> str:
    """Hash of a JSON value, independent of key order and white space."""
    return sha256_text(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False))


def sha256_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
