"""CSV with the columns prompt, answer and, where used, category and choices (separated by |); UTF-8, comma."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.errors import UserError, nearest
from pipeline.eval_sets.importers import Draft, Options, Refusals
from pipeline.eval_sets.importers._located import read_text
from pipeline.eval_sets.importers._table import Columns, items
from pipeline.eval_sets.importers._targets import require_scorer

OPTIONS = frozenset({"scorer", "prompt_field", "answer_field", "choices_field", "category_field"})
SEPARATOR = "|"
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs"}


def read(source: str, options: Options) -> Draft:
    """Raises UserError with every column and row that cannot be taken over."""
    if options.scorer:
        require_scorer(options.scorer)
    path = Path(source)
    text = read_text(path)
    _require_commas(path, text)
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    header = _header(path, reader)
    columns = _columns(path, header, options)
    refusals = Refusals()
    found = items(_rows(path, reader, columns, refusals), columns, options.scorer, refusals)
    refusals.require_none()
    return Draft(found, provenance=f"Imported from the CSV file {path.name}.")


def _header(path: Path, reader: csv.DictReader[str]) -> list[str]:
    try:
        return list(reader.fieldnames or [])
    except csv.Error as error:
        raise UserError(_not_csv(f"{path}:1", error)) from None


def _require_commas(path: Path, text: str) -> None:
    """Raises UserError when the first line says that the file is empty, is JSON, or has other separators."""
    first = text.partition("\n")[0].strip()
    if not first:
        raise UserError(f"{path}:1: empty; the first line must name the columns, such as prompt,answer")
    if first == "[" or first.startswith(("{", "[{")):
        raise UserError(
            f"{path}:1: holds JSON, not CSV; JSON lines are read by --format openai-evals and --format promptfoo"
        )
    other = next((name for sign, name in _OTHER_SEPARATORS.items() if sign in first), None)
    if other and "," not in first:
        raise UserError(f"{path}:1: its cells are separated by {other}; save it as CSV with commas")


def _not_csv(place: str, error: csv.Error) -> str:
    if "field limit" in str(error):
        limit = f"{csv.field_size_limit():,}"
        return (
            f"{place}: a cell has more than {limit} characters; shorten it, or close the quotation mark that makes one "
            "cell of many"
        )
    return f"{place}: not CSV ({error})"


def _columns(path: Path, header: list[str], options: Options) -> Columns:
    columns = Columns(
        prompt=options.prompt_field or "prompt",
        answer=options.answer_field or "answer",
        choices=options.choices_field or ("choices" if "choices" in header else None),
        category=options.category_field or ("category" if "category" in header else None),
    )
    if columns.category == columns.answer:  # A table of labels, whose answers are no categories of questions.
        columns = Columns(columns.prompt, columns.answer, columns.choices, None)
    wanted = [name for name in vars(columns).values() if name is not None]
    refusals = Refusals()
    for name in wanted:
        if name not in header:
            refusals.add(
                f"{path}:1", f"no column {name!r}; {nearest(name, header)}; name them with --prompt-field and the like"
            )
    for name in dict.fromkeys(header):
        if header.count(name) > 1:
            refusals.add(f"{path}:1", f"column {name!r} stands there {header.count(name)} times; keep one of them")
        if name not in wanted:
            refusals.add(f"{path}:1", f"column {name!r} cannot be imported; remove it, or name what it holds")
    refusals.require_none()
    return columns


def _rows(
    path: Path, reader: csv.DictReader[str], columns: Columns, refusals: Refusals
) -> Iterator[tuple[str, dict[str, Any]]]:
    line = reader.line_num + 1
    try:
        for row in reader:
            place, line = f"{path}:{line}", reader.line_num + 1
            if None in row or None in row.values():
                refusals.add(place, f"expected {len(row.keys() - {None})} cells, as in the first line")
            elif columns.choices:
                choices = [choice.strip() for choice in row[columns.choices].split(SEPARATOR) if choice.strip()]
                yield place, row | {columns.choices: choices}
            else:
                yield place, dict(row)
    except csv.Error as error:
        raise UserError(_not_csv(f"{path}:{line}", error)) from None
