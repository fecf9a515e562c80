"""How an lm-eval task makes question, choices and answer of a document: field names or Jinja templates."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from pipeline.eval_sets.importers._jinja import fill
from pipeline.eval_sets.importers._located import Located

Document = Mapping[str, Any]


class Wording:
    """A task's `doc_to_text`, `doc_to_choice` and `doc_to_target`, read as lm-eval 0.4 reads them."""

    def __init__(self, task: Located, fields: set[str]) -> None:
        self._settings: dict[str, Any] = task.value
        self._fields = fields

    def question(self, document: Document) -> str:
        """Raises ValueError when there is no text."""
        value = self._value("doc_to_text", document)
        if not isinstance(value, str) or (value.isdigit() and "doc_to_choice" in self._settings):
            raise ValueError(
                f"doc_to_text gives {value!r:.60}, which is no question; several inputs cannot be imported"
            )
        return value

    def choices(self, document: Document) -> list[str]:
        """None where the task has no `doc_to_choice`; raises ValueError when it gives no texts."""
        given = self._settings.get("doc_to_choice")
        if given is None:
            return []
        if isinstance(given, dict):
            given = list(given.values())
        value = given if isinstance(given, list) else _literal(self._value("doc_to_choice", document))
        if not isinstance(value, list) or not all(isinstance(choice, str) for choice in value):
            raise ValueError(f"doc_to_choice must give a list of texts, got {value!r:.80}")
        return value

    def answers(self, document: Document, choices: list[str]) -> list[str]:
        """The right answers; a number among choices is the place of the right one, from 0."""
        value = self._value("doc_to_target", document)
        if choices and isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
            value = _literal(value)
        if choices and isinstance(value, int) and not isinstance(value, bool):
            if not 0 <= value < len(choices):
                raise ValueError(f"doc_to_target gives choice number {value}, counted from 0, of {len(choices)}")
            return [choices[value]]
        answers = value if isinstance(value, list) else [value]
        if not answers or not all(isinstance(answer, str | int | float) for answer in answers):
            raise ValueError(f"doc_to_target must give a text, a number or a list of texts, got {value!r:.80}")
        return [str(answer) for answer in answers]

    def _value(self, setting: str, document: Document) -> Any:
        """A number as it is, a field's value, or the template filled from the document."""
        given = self._settings[setting]
        if not isinstance(given, str):
            return given
        if given in self._fields:
            if given not in document:
                raise ValueError(f"{setting} names the field {given!r}, which is missing here")
            return document[given]
        return fill(given, document)


def _literal(value: Any) -> Any:
    """A list that stands in a text, as a template gives it."""
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return value
