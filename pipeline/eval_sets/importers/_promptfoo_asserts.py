"""The assertions of one promptfoo test as one scorer and its target."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.errors import UserError
from pipeline.eval_sets.importers import DraftItem
from pipeline.eval_sets.importers._jinja import fill
from pipeline.eval_sets.importers._located import Located

Target = tuple[str, dict[str, Any]]
_KEYS = {"type", "value", "metric"}
_UNITED = {"contains_all", "json_schema"}
"""Scorers that hold several assertions at once."""


def target(found: Sequence[Located], values: Mapping[str, Any], place: str) -> Target:
    """Scorer and target of all assertions of a test together.

    Raises:
        UserError: with every assertion that has no like here, by its type and line.
    """
    problems: list[str] = []
    parts = [part for assertion in found if (part := _part(assertion, values, problems))]
    if problems:
        raise UserError(problems)
    if not parts:
        raise UserError(f"{place}: no assertion, so nothing tells a right answer; add one, or remove the test")
    if all(part.keys() == {"schema"} for _, part in parts):
        raise UserError(
            f"{place}: 'is-json' alone says nothing of the values; add an 'equals' with the expected object"
        )
    if all(part.keys() == {"none_of"} for _, part in parts):
        raise UserError(f"{place}: only says what must not stand in the answer; add a 'contains' with what must")
    scorers = {scorer for scorer, _ in parts}
    if len(scorers) > 1 or (len(parts) > 1 and scorers - _UNITED):
        kinds = ", ".join(str(assertion.value["type"]) for assertion in found)
        raise UserError(
            f"{place}: the assertions {kinds} together cannot be imported; an item has one scorer, and only the "
            "contains family, or is-json with equals, go together. Split the test"
        )
    return _united(parts)


def notes(items: Sequence[DraftItem]) -> list[str]:
    """How scores differ from promptfoo's."""
    used = {item.scorer for item in items}
    return [text for scorer, text in _DIFFERENCES.items() if scorer in used]


_DIFFERENCES = {
    "contains_all": "contains and its kin look for whole words without regard to case, and a share of them scores",
    "contains_any": "contains-any looks for whole words without regard to case",
    "exact": "equals is taken without regard to case, outer white space and a final period",
}


def _united(parts: Sequence[Target]) -> Target:
    scorer = parts[0][0]
    if scorer == "json_schema":
        return scorer, {"schema": {}} | {key: value for _, part in parts for key, value in part.items()}
    if scorer != "contains_all":
        return parts[0]
    wanted = [entry for _, part in parts for entry in part.get("all_of", [])]
    unwanted = [entry for _, part in parts for entry in part.get("none_of", [])]
    if len(wanted) == 1 and isinstance(wanted[0], list) and not unwanted:
        return "contains_any", {"any_of": wanted[0]}
    return scorer, {"all_of": wanted} | ({"none_of": unwanted} if unwanted else {})


def _part(assertion: Located, values: Mapping[str, Any], problems: list[str]) -> Target | None:
    raw = assertion.value
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        problems.append(f"{assertion.place()}: expected an assertion with a 'type', got {raw!r:.60}")
        return None
    kind = raw["type"]
    if kind not in _KINDS:
        problems.append(
            f"{assertion.place('type')}: assertion {kind!r} cannot be imported; these can: {', '.join(sorted(_KINDS))}"
        )
        return None
    extra = sorted(raw.keys() - _KEYS)
    problems.extend(f"{assertion.place(key)}: {key!r} of {kind!r} cannot be imported; remove it" for key in extra)
    try:
        return None if extra else _KINDS[kind](_filled(raw.get("value"), values))
    except ValueError as error:
        problems.append(f"{assertion.place('value')}: {kind!r}: {error}")
        return None


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """The expected value with its variables filled in, wherever texts stand in it."""
    if isinstance(value, str):
        if value.startswith("file://"):
            raise ValueError(f"the value is a file ({value}); put its text there")
        return fill(value, values)
    if isinstance(value, list):
        return [_filled(each, values) for each in value]
    if isinstance(value, dict):
        return {key: _filled(each, values) for key, each in value.items()}
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise ValueError(f"the value must be a text or a number, got {value!r:.60}")
    return str(value)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"the value must be a list of texts, got {value!r:.60}")
    return [_text(each) for each in value]


def _equals(value: Any) -> Target:
    if isinstance(value, dict | list):
        return "json_schema", {"value": value}
    return "exact", {"answer": _text(value)}


def _contains(value: Any) -> Target:
    return "contains_all", {"all_of": [_text(value)]}


def _contains_all(value: Any) -> Target:
    return "contains_all", {"all_of": _texts(value)}


def _contains_any(value: Any) -> Target:
    return "contains_all", {"all_of": [_texts(value)]}


def _not_contains(value: Any) -> Target:
    return "contains_all", {"none_of": [_text(value)]}


def _not_contains_any(value: Any) -> Target:
    return "contains_all", {"none_of": _texts(value)}


def _regex(value: Any) -> Target:
    """promptfoo finds the pattern anywhere, and its dot matches no line end; here the whole output must match."""
    pattern = f"[\\s\\S]*(?-s:{_text(value)})[\\s\\S]*"
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{value!r:.60} is no regular expression of Python ({error}); rewrite it") from None
    return "regex", {"pattern": pattern}


def _is_json(value: Any) -> Target:
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"the value must be a JSON schema, got {value!r:.60}")
    return "json_schema", {"schema": value or {}}


_KINDS: dict[str, Callable[[Any], Target]] = {
    "equals": _equals,
    "contains": _contains,
    "icontains": _contains,
    "contains-all": _contains_all,
    "icontains-all": _contains_all,
    "contains-any": _contains_any,
    "icontains-any": _contains_any,
    "not-contains": _not_contains,
    "not-icontains": _not_contains,
    "not-contains-any": _not_contains_any,
    "not-icontains-any": _not_contains_any,
    "regex": _regex,
    "is-json": _is_json,
}
