"""A data set on the Hugging Face hub, at a pinned commit: `hub:owner/name`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.errors import UserError, brief, nearest
from pipeline.eval_sets.importers import Draft, Options, Refusals
from pipeline.eval_sets.importers._table import Columns, items
from pipeline.eval_sets.importers._targets import require_scorer

PREFIX = "hub:"
OPTIONS = frozenset(Options.__dataclass_fields__)


def read(source: str, options: Options) -> Draft:
    """Raises UserError when an option is missing, the data set cannot be had, or rows cannot be taken over."""
    if options.scorer:
        require_scorer(options.scorer)
    repository = source.removeprefix(PREFIX)
    columns = _columns(options)
    rows = _load(repository, options)
    _require_columns(repository, rows.column_names, columns)
    refusals = Refusals()
    found = items(_places(repository, rows, columns), columns, options.scorer, refusals)
    refusals.require_none()
    left = [name for name in rows.column_names if name not in vars(columns).values()]
    return Draft(
        found,
        provenance=(
            f"Imported from the hub data set {repository}"
            + (f" ({options.config})" if options.config else "")
            + f" at revision {options.revision}, split {options.split}."
        ),
        notes=[f"columns that were not named are left out: {', '.join(left)}"] if left else [],
    )


def _columns(options: Options) -> Columns:
    missing = [
        f"--{name.replace('_', '-')}: needed for a hub data set"
        for name in ("split", "prompt_field", "answer_field")
        if getattr(options, name) is None
    ]
    if options.revision is None or not re.fullmatch(r"[0-9a-f]{40}", options.revision):
        missing.insert(
            0,
            f"--revision: needs a commit of the data set, 40 hexadecimal digits, got {options.revision!r}; a branch or "
            "tag may name other items tomorrow",
        )
    if missing:
        raise UserError(missing)
    return Columns(
        prompt=str(options.prompt_field),
        answer=str(options.answer_field),
        choices=options.choices_field,
        category=options.category_field,
    )


def _load(repository: str, options: Options) -> Any:
    import datasets

    try:
        return datasets.load_dataset(repository, name=options.config, revision=options.revision, split=options.split)
    except Exception as error:  # The hub, the network and the data set's own files each fail in their own way.
        raise UserError(f"{PREFIX}{repository}: cannot be loaded ({brief(error)})") from None


def _require_columns(repository: str, have: list[str], columns: Columns) -> None:
    wanted = [name for name in vars(columns).values() if name is not None]
    absent = [f"{PREFIX}{repository}: no column {name!r}; {nearest(name, have)}" for name in wanted if name not in have]
    if absent:
        raise UserError(absent)


def _places(repository: str, rows: Any, columns: Columns) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows with their places; a class number is given as the name of the class."""
    named: dict[str, Callable[[int], str]] = {
        name: rows.features[name].int2str
        for name in vars(columns).values()
        if name is not None and hasattr(rows.features[name], "int2str")
    }
    for number, row in enumerate(rows):
        labels = {name: _class_name(to_name, row[name]) for name, to_name in named.items()}
        yield f"{PREFIX}{repository}, row {number}", {**row, **labels}


def _class_name(to_name: Callable[[int], str], number: int) -> str | None:
    """None for -1, which stands for a label that was held back."""
    return to_name(number) if number >= 0 else None
