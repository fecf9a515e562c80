"""Merge all records into the report, for people and for machines; docs/between-releases.md lists the files.

What is written follows from params.yaml and the records alone: two runs on the same give the same bytes.
"""

from __future__ import annotations

from pipeline import params, records, store
from pipeline.report import html, markdown, plot_svg, report_json, tables
from pipeline.report.analysis import Analysis, analyse
from pipeline.stages import _main


def main() -> None:
    analysis = analyse(params.load())
    write(analysis)
    print(f"{analysis.decision.headline}\nThe report is {store.REPORTS / markdown.FULL}.", flush=True)


def write(analysis: Analysis) -> None:
    decision = analysis.decision
    store.write_text(store.REPORTS / "pareto.csv", tables.pareto_csv(analysis.rows))
    for row in analysis.rows:
        store.write_json(store.REPORTS / "metrics" / f"{row.variant}.json", tables.metrics_json(row))
    store.write_text(store.REPORTS / "report.md", markdown.render(analysis))
    store.write_text(store.REPORTS / markdown.PLOT, plot_svg.render(analysis.rows, decision.pick))
    store.write_text(store.REPORTS / markdown.FULL, html.render(analysis))
    records.save(store.REPORTS / markdown.MACHINES, report_json.build(analysis))
    records.save(store.REPORTS / "decision.json", decision)


if __name__ == "__main__":
    _main.run(main)
