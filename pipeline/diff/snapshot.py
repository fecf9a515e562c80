"""One side as read. Reports of older schemas are read as far as they go; what is missing is noted.

decision.json and pareto.csv have kept their fields since the first version, and so have the scored items.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline import store
from pipeline.diff.places import DECISION, Place
from pipeline.diff.records import SideInfo
from pipeline.errors import UserError
from pipeline.quality_records import ItemResult
from pipeline.report.report_records import Figure, Report
from pipeline.yaml_files import read_yaml

Read = TypeVar("Read")


class _Kept(BaseModel):
    """The fields that every version has; others are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class GateRead(_Kept):
    gate: str
    verdict: str
    bound: float | None = None
    reason: str = ""


class VariantRead(_Kept):
    variant: str
    verdict: str
    gates: list[GateRead]
    why: str


class DecisionRead(_Kept):
    schema_version: int
    pick: str | None
    headline: str
    baseline: str
    workload: str
    profile: str | None = None
    """Whose weights rank; older reports have none."""
    profiles: dict[str, str | None] = {}
    variants: list[VariantRead]


@dataclass(frozen=True)
class Snapshot:
    info: SideInfo
    decision: DecisionRead
    table: Mapping[str, Mapping[str, str]]
    """pareto.csv: variant → column → text."""
    params: Mapping[str, Any]
    environment: Mapping[str, Any] | None
    speed: Mapping[str, Mapping[str, Any]]
    """Speed record of each variant, as it stands in its file."""
    items: Mapping[str, Mapping[str, tuple[ItemResult, ...]]]
    """Variant → eval set → scored items."""
    report: Report | None
    """report.json, where there is one of this version."""
    notes: tuple[str, ...]

    @property
    def variants(self) -> list[str]:
        return [found.variant for found in self.decision.variants]

    def figure(self, variant: str, metric: str, low: str | None = None, high: str | None = None) -> Figure:
        """A value of pareto.csv, with its interval where the columns of its ends are given."""
        value = self._number(variant, metric)
        if isinstance(value, str):
            return Figure(value=None, reason=value)
        if low is None or high is None:
            return Figure(value=value)
        ends = self._number(variant, low), self._number(variant, high)
        absent = next((end for end in ends if isinstance(end, str)), None)
        if absent is not None:
            return Figure(value=value, reason=f"no interval: {absent}")
        return Figure(value=value, low=float(ends[0]), high=float(ends[1]))

    def _number(self, variant: str, column: str) -> float | str:
        """A number, or why there is none."""
        row = self.table.get(variant)
        if row is None:
            return f"{self.info.given} has no variant {variant}"
        if column not in row:
            return f"the report of {self.info.given} has no {column}"
        try:
            return float(row[column]) if row[column] else (row.get("reason") or f"{column} is missing")
        except ValueError:
            return f"{column} is no number in the report of {self.info.given}"


def read(place: Place) -> Snapshot:
    """Read a side.

    Raises:
        UserError: its decision or its table cannot be read; everything else is noted.
    """
    notes: list[str] = []
    decision = _decision(place)
    return Snapshot(
        info=SideInfo(given=place.given, commit=place.commit, schema_version=decision.schema_version),
        decision=decision,
        table=_table(place),
        params=_noted(partial(_params, place), {}, notes),
        environment=_noted(partial(_object, place, store.ENVIRONMENT), None, notes),
        speed=_speed(place, decision, notes),
        items=_items(place, notes),
        report=_noted(partial(_report, place), None, notes),
        notes=tuple(notes),
    )


def _decision(place: Place) -> DecisionRead:
    try:
        raw = _object(place, store.REPORTS / DECISION)
    except UserError as error:
        raise UserError(f"{problem}. {_anew(place)}" for problem in error.problems) from None
    try:
        return DecisionRead.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(
            f"{place.given}: {store.REPORTS / DECISION} is of schema {raw.get('schema_version', 'unknown')}, which "
            f"cannot be compared ({'.'.join(map(str, first['loc']))}: {first['msg']}). {_anew(place)}"
        ) from None


def _anew(place: Place) -> str:
    if place.commit is None:
        return "Run `dvc repro` there to make the report anew."
    return (
        f"Check out {place.commit[:12]} into a folder of its own, run `dvc repro --single-item report` there with this "
        "version of quantgate, and give that folder; or choose a later revision."
    )


def _table(place: Place) -> dict[str, dict[str, str]]:
    path = place.reports / "pareto.csv"
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            found = {row["variant"]: dict(row) for row in csv.DictReader(stream)}
    except (OSError, KeyError, UnicodeDecodeError) as error:
        raise UserError(f"{place.given}: reports/pareto.csv cannot be read ({error}). {_anew(place)}") from None
    if not found:
        raise UserError(f"{place.given}: reports/pareto.csv cannot be read (it has no variant). {_anew(place)}")
    return found


def _params(place: Place) -> dict[str, Any]:
    if not place.params.is_file():
        raise UserError(f"{place.given}: has no params.yaml beside the report, so params are not compared")
    raw = read_yaml(place.params)
    return raw if isinstance(raw, dict) else {}


def _object(place: Place, path: Path) -> dict[str, Any]:
    """A JSON object of a file below reports."""
    file = place.reports / path.relative_to(store.REPORTS)
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{place.given}: has no {path}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{place.given}: {path} cannot be read ({error})") from None
    if not isinstance(raw, dict):
        raise UserError(f"{place.given}: {path} holds no JSON object")
    return raw


def _speed(place: Place, decision: DecisionRead, notes: list[str]) -> dict[str, dict[str, Any]]:
    names = [found.variant for found in decision.variants]
    return {name: _noted(partial(_object, place, store.speed_record(name)), {}, notes) for name in names}


def _items(place: Place, notes: list[str]) -> dict[str, dict[str, tuple[ItemResult, ...]]]:
    found: dict[str, dict[str, tuple[ItemResult, ...]]] = {}
    folder = place.reports / store.QUALITY_RECORDS.relative_to(store.REPORTS)
    for path in sorted(folder.glob("*/*.items.jsonl")):
        variant, eval_set = path.parent.name, path.name.removesuffix(".items.jsonl")
        items: tuple[ItemResult, ...] = _noted(partial(_scored, place, path), (), notes)
        if items:
            found.setdefault(variant, {})[eval_set] = items
    return found


def _scored(place: Place, path: Path) -> tuple[ItemResult, ...]:
    """Fields that this version does not know are passed over; one that it needs must be there."""
    try:
        raw = [json.loads(line) for line in store.read_lines(path)]
        return tuple(
            ItemResult.model_validate({key: line[key] for key in ItemResult.model_fields if key in line})
            for line in raw
        )
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (OSError, ValueError, TypeError) as error:
        problem = str(error)
    name = path.relative_to(place.reports)
    raise UserError(f"{place.given}: reports/{name} is of another schema and is not compared ({problem})")


def _report(place: Place) -> Report:
    """The table has to do where there is none, or one of another version."""
    path = place.reports / "report.json"
    if not path.is_file():
        raise UserError(f"{place.given}: has no reports/report.json, so only the deciding workload's speed is compared")
    try:
        return Report.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(
            f"{place.given}: reports/report.json is of another schema than "
            f"{Report.model_fields['schema_version'].default}, so only the deciding workload's speed is compared"
        ) from None


def _noted(read: Callable[[], Read], otherwise: Read, notes: list[str]) -> Read:
    try:
        return read()
    except UserError as error:
        notes.extend(error.problems)
        return otherwise
