"""The JSON Schemas that are published in docs/schema: of files that other programs read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import store
from pipeline.diff.records import Difference
from pipeline.records import Decision, Record
from pipeline.report.report_records import Report

FOLDER = Path("docs", "schema")
PUBLISHED: dict[str, type[Record]] = {"report": Report, "decision": Decision, "diff": Difference}
"""What the files are called → what they hold."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def files() -> Iterator[tuple[Path, str]]:
    """Path and text of each schema, by the version that is written now; those of older versions stay as they are."""
    for name, kind in PUBLISHED.items():
        file_name = f"{name}-{kind.model_fields['schema_version'].default}.schema.json"
        yield FOLDER / file_name, store.to_json(of(kind, file_name))


def of(kind: type[Record], name: str) -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of what is written: a field with a default is there all the same.

    Unknown fields are let through, unlike by the models: a later version may add one without a new schema version.
    """
    schema: dict[str, Any] = _open(kind.model_json_schema(mode="serialization"))
    return {"$schema": DIALECT, "$id": name, **schema}


def _open(schema: Any) -> Any:
    """The schema without `additionalProperties: false`, at any depth."""
    if isinstance(schema, list):
        return [_open(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _open(value) for key, value in schema.items() if (key, value) != ("additionalProperties", False)}
