"""The files for machines: pareto.csv, and one flat JSON of numbers per variant for `dvc metrics`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from pipeline.metrics.catalogue import EXTRA, MAIN, METRICS
from pipeline.records import Reading
from pipeline.report.rows import Row

HEADER: tuple[str, ...] = (
    "variant",
    "status",
    "reason",
    "engine",
    *(metric.name for metric in MAIN),
    "frontier",
    "artifact_sha256",
    *(metric.name for metric in EXTRA),
)


def pareto_csv(rows: Sequence[Row]) -> str:
    """One line per variant; what is missing is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for row in rows:
        writer.writerow(
            [
                row.variant,
                row.status.value,
                row.reason or "",
                row.engine,
                *(_number(row.readings[metric.name]) for metric in MAIN),
                "true" if row.on_frontier else "false",
                row.artifact_sha256 or "",
                *(_number(row.readings[metric.name]) for metric in EXTRA),
            ]
        )
    return out.getvalue()


def metrics_json(row: Row) -> dict[str, int | float | str]:
    """Status and every number that there is. A missing one is left out: `dvc metrics show` then prints `-`."""
    numbers = {metric.name: _number(row.readings[metric.name]) for metric in METRICS}
    return {"status": row.status.value} | {name: number for name, number in numbers.items() if number != ""}


def _number(reading: Reading) -> int | float | str:
    """Bytes and counts as whole numbers."""
    if reading.value is None:
        return ""
    return int(reading.value) if reading.value.is_integer() else reading.value
