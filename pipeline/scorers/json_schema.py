"""Extraction to JSON under a schema: nothing for an answer that is not valid, else how many fields came out right.

jsonschema is imported inside the functions: the command line reaches this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pipeline.scorers import json_values
from pipeline.scorers.targets import shape_problems

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Path = tuple[str | int, ...]


def score(output: str, target: dict[str, Any]) -> float:
    """F1 over leaf paths of the output's first JSON object or array; 0 unless that is valid under the schema.

    Micro-averaged (Manning, Raghavan & Schütze 2008, sections 8.3 and 13.6): with leaves as (path, value), F1 is
    2 × equal / (found + expected), so a wrong value counts once as too much and once as missing.
    """
    found = json_values.first(output, "{[")
    if found is None or not _valid(found, target["schema"]):
        return 0.0
    have, want = leaves(found), leaves(target["value"])
    equal = sum(path in have and _same(have[path], value) for path, value in want.items())
    return 2 * equal / (len(have) + len(want))


def leaves(value: Any) -> dict[Path, Any]:
    """Each scalar and each empty object or array of a JSON value by its path; array elements by index."""
    found: dict[Path, Any] = {}
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, here = waiting.pop()
        if isinstance(here, dict | list) and here:
            waiting += [((*path, key), inner) for key, inner in _inner(here)]
        else:
            found[path] = here
    return found


def target_problems(target: Any) -> list[str]:
    if found := shape_problems(target, '{"schema": {JSON Schema}, "value": …}', {"schema", "value"}):
        return found
    schema, value = target["schema"], target["value"]
    if not isinstance(schema, dict):
        return ["target.schema must be a JSON Schema as an object"]
    if not isinstance(value, dict | list):
        return ["target.value must be a JSON object or array"]
    return list(_schema_problems(schema)) or [
        f"target.value is not valid under target.schema at {error.json_path}: {error.message}"
        for error in _validator(schema).iter_errors(value)
    ]


def _inner(value: dict[str, Any] | list[Any]) -> Iterable[tuple[str | int, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value)


def _schema_problems(schema: dict[str, Any]) -> Iterator[str]:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        yield f"target.schema is not a JSON Schema at {error.json_path}: {error.message}"
        return
    registry: Registry[Any] = Registry()
    resolver = registry.resolver_with_root(DRAFT202012.create_resource(schema))
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            yield f"target.schema refers to {reference!r}, which is not in the schema itself; nothing is fetched"


def _references(schema: Any) -> Iterator[str]:
    for path, value in leaves(schema).items():
        if path and path[-1] == "$ref" and isinstance(value, str):
            yield value


def _validator(schema: dict[str, Any]) -> Validator:
    """A validator that knows nothing beyond the schema: what it refers to elsewhere is not fetched."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER, registry=Registry())


def _valid(value: Any, schema: dict[str, Any]) -> bool:
    try:
        return bool(_validator(schema).is_valid(value))
    except RecursionError:
        # An answer nested a thousand deep, as a model in a loop writes it.
        return False


def _same(found: Any, wanted: Any) -> bool:
    """Of two leaves; an empty object or array equals its like alone."""
    if isinstance(wanted, dict | list):
        return bool(found == wanted)
    return json_values.equal(found, wanted)
