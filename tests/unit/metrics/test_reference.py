from __future__ import annotations

from pathlib import Path

from pipeline.metrics import reference
from pipeline.metrics.catalogue import METRICS

PAGE = Path(reference.__file__).parents[2] / reference.PAGE


def test_the_table_in_the_docs_is_up_to_date():
    page = PAGE.read_text(encoding="utf-8")
    assert page == reference.renewed(page), "run `python -m pipeline.metrics.reference`"


def test_every_metric_has_a_line():
    assert all(f"| `{metric.name}` |" in reference.table() for metric in METRICS)
