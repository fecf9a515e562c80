"""Merge all records into pareto.csv, report.md, report.html, decision.json and metrics/<variant>.json.

What is written follows from params.yaml and the records alone: two runs on the same give the same bytes.
"""

from __future__ import annotations

from pipeline import params, records, store
from pipeline.report import html, markdown, tables
from pipeline.report.analysis import Analysis, analyse
from pipeline.stages import _main


def main() -> None:
    analysis = analyse(params.load())
    write(analysis)
    print(f"{analysis.decision.headline}\nThe report is {store.REPORTS / 'report.html'}.", flush=True)


def write(analysis: Analysis) -> None:
    store.write_text(store.REPORTS / "pareto.csv", tables.pareto_csv(analysis.rows))
    for row in analysis.rows:
        store.write_json(store.REPORTS / "metrics" / f"{row.variant}.json", tables.metrics_json(row))
    store.write_text(store.REPORTS / "report.md", markdown.render(analysis))
    store.write_text(store.REPORTS / "report.html", html.render(analysis))
    records.save(store.REPORTS / "decision.json", analysis.decision)


if __name__ == "__main__":
    _main.run(main)
