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


def read(source: str, options: Options) -> Draft:
    """Raises UserError with every column and row that cannot be taken over."""
    if options.scorer:
        require_scorer(options.scorer)
    path = Path(source)
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    header = list(reader.fieldnames or [])
    columns = _columns(path, header, options)
    refusals = Refusals()
    found = items(_rows(path, reader, columns, refusals), columns, options.scorer, refusals)
    refusals.require_none()
    return Draft(found, provenance=f"Imported from the CSV file {path.name}.")


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
        raise UserError(f"{path}:{line}: not CSV ({error})") from None
