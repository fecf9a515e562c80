from __future__ import annotations

import json

from pipeline import store
from pipeline.report.analysis import analyse
from pipeline.stages import report


def test_the_same_records_give_the_same_bytes(project, four_variants):
    params = project.write(*four_variants)
    report.write(analyse(params))
    first = {path: path.read_bytes() for path in store.REPORTS.rglob("*") if path.is_file()}
    report.write(analyse(params))
    assert {path: path.read_bytes() for path in store.REPORTS.rglob("*") if path.is_file()} == first
    assert {path.name for path in store.REPORTS.iterdir() if path.is_file()} == {
        "environment.json",
        "pareto.csv",
        "report.md",
        "report.svg",
        "report.html",
        "report.json",
        "decision.json",
    }
    assert sorted(path.name for path in (store.REPORTS / "metrics").iterdir()) == [
        "fp16.json",
        "int4-awq.json",
        "int4-gptq.json",
        "int8.json",
    ]
    assert json.loads((store.REPORTS / "decision.json").read_text())["pick"] == "int4-gptq"
