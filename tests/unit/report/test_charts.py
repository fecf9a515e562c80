"""The charts hold the numbers of the tables beside them."""

from __future__ import annotations

import json
from dataclasses import replace

from pipeline.report import charts
from pipeline.report.analysis import analyse
from pipeline.report.breakdown import concurrency, pairing

SCORES = [1.0] * 72 + [0.0] * 48


def test_the_trade_off_draws_both_intervals_of_points_that_the_page_puts_in():
    spec = charts.tradeoff()
    assert json.loads(json.dumps(spec)) == spec
    assert {"name": "points"} in [spec.get("data"), *(layer.get("data") for layer in spec["layer"])]
    ends = {
        layer["encoding"][end]["field"] for layer in spec["layer"] for end in ("x2", "y2") if end in layer["encoding"]
    }
    assert ends == {"x_high", "y_high"}
    assert {"{x-axis}", "{y-axis}"} <= {
        layer["encoding"][axis]["title"] for layer in spec["layer"] for axis in ("x", "y")
    }


def data(spec) -> list[dict]:
    return [row for rows in spec["datasets"].values() for row in rows if "variant" in row]


def test_the_chart_of_speed_ups_has_the_numbers_of_its_table(project, build):
    analysis = analyse(
        project.write(build.evidence("fp16", SCORES), build.evidence("int8", SCORES, tpot_s=0.1), build.failed("int4"))
    )
    lines = pairing.lines(analysis.gathered.variants, analysis.params)
    spec = charts.speedups(lines, ["fp16", "int8", "int4"])
    shown = {row["variant"]: (row["shown"], round(row["ratio"], 2)) for row in data(spec)}
    assert shown == {"fp16": ("1.00× (0.97 to 1.03)", 1.0), "int8": ("0.50× (0.49 to 0.51)", 0.5)}
    assert {"ratio": 1} in [row for rows in spec["datasets"].values() for row in rows]
    assert charts.speedups(lines[2:], ["int4"]) is None


def levels(project, build, gaps):
    """A baseline whose token gaps at 1, 2, 4 … streams these are."""
    project.raw["benchmark"]["sweep"]["concurrency"] = [2**place for place in range(len(gaps))]
    found = [build.workload(tpot_s=gap, concurrency=2**place) for place, gap in enumerate(gaps)]
    return replace(build.evidence("fp16", SCORES), speed=build.speed("fp16", found))


def test_the_chart_of_levels_has_the_numbers_of_its_table(project, build):
    analysis = analyse(project.write(levels(project, build, [0.05, 0.05, 0.2])))
    found = concurrency.of(analysis.gathered.variants)
    spec = charts.throughput(found, ["fp16"])
    # 32 and 2 × 32 tokens in 0.1 + 31 × 0.05 s, 4 × 32 in 0.1 + 31 × 0.2 s
    assert [(row["streams"], row["shown"], row["knee"]) for row in data(spec)] == [
        (1, "19.4", False),
        (2, "38.8", True),
        (4, "20.3", False),
    ]
    one = analyse(project.write(levels(project, build, [0.05])))
    assert charts.throughput(concurrency.of(one.gathered.variants), ["fp16"]) is None
