from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from synthetic import MIB

from pipeline.metrics import intervals
from pipeline.records import missing
from pipeline.report import frontier, tradeoff
from pipeline.report.analysis import analyse


def payload(project, *variants):
    analysis = analyse(project.write(*variants))
    data = tradeoff.payload(analysis.params, analysis.rows, analysis.decision.pick)
    assert data
    return analysis, data, {axis["name"]: place for place, axis in enumerate(data["axes"])}


def test_every_pair_of_axes_is_placed_as_the_frontier_says(project, four_variants):
    analysis, data, _ = payload(project, *four_variants)
    axes = frontier.selectable(analysis.params, analysis.rows)
    assert [axis.name for axis in axes] == [axis["name"] for axis in data["axes"]]
    for x, y in combinations(range(len(axes)), 2):
        assert data["places"][f"{x},{y}"] == frontier.place(analysis.rows, (axes[x], axes[y]), 0.05)


def test_points_have_the_axis_s_unit_and_their_interval(project, four_variants):
    _, data, place = payload(project, *four_variants)
    int4 = data["points"]["int4-gptq"]
    assert int4[place["weight_bytes"]] == {"value": 90, "shown": "90 MiB"}
    speedup = int4[place["speedup"]]
    assert speedup["low"] < speedup["value"] < speedup["high"]
    assert speedup["shown"] == "1.25× (1.22 to 1.29)"
    assert int4[place["quality"]]["value"] == pytest.approx(100 * 69 / 120)
    assert data["axes"][place["weight_bytes"]]["axis"] == "Weights on disk (MiB), lower is better"


def test_large_sizes_are_in_gib(project, build):
    _, data, place = payload(project, build.evidence("fp16", weight_bytes=4096 * MIB), build.evidence("int8"))
    assert data["points"]["fp16"][place["weight_bytes"]]["value"] == 4
    assert "GiB" in data["axes"][place["weight_bytes"]]["axis"]


def test_what_has_no_value_tells_why_and_has_no_place(project, build):
    speed = build.speed("int8", [build.workload()])
    processes = [
        process.model_copy(
            update={"peaks": [peak.model_copy(update={"peak_bytes": missing("not read")}) for peak in process.peaks]}
        )
        for process in speed.processes
    ]
    unread = replace(build.evidence("int8"), speed=speed.model_copy(update={"processes": processes}))
    _, data, place = payload(project, build.evidence("fp16"), unread, build.failed("int4"))
    memory = place["peak_memory_bytes"]
    assert data["points"]["int8"][memory] == {"shown": "no Peak memory: no peak of instruction × 1: not read"}
    assert data["points"]["int4"][memory] == {"shown": "failed: quantize: out of memory"}
    assert set(data["places"][f"{min(memory, 0)},{max(memory, 0)}"]) == {"fp16"}


def test_plots_begin_with_the_frontier_s_axes(project, four_variants):
    analysis, data, place = payload(project, *four_variants)
    assert tradeoff.plots(analysis.params, data["axes"]) == [
        tradeoff.Plot(place["speedup"], place["quality"]),
        tradeoff.Plot(place["peak_memory_bytes"], place["quality"]),
    ]


def test_without_values_there_is_nothing_to_draw(project, build):
    analysis = analyse(project.write(build.failed("fp16"), build.failed("int8")))
    assert tradeoff.payload(analysis.params, analysis.rows, None) is None


def test_two_variants_are_compared_item_by_item_once(project, four_variants, monkeypatch):
    """Though the plots ask for every pair of axes."""
    analysis = analyse(project.write(*four_variants))
    asked = []
    difference = intervals.difference

    def counting(ours, theirs, seed):
        asked.append((id(ours), id(theirs)))
        return difference(ours, theirs, seed)

    monkeypatch.setattr(intervals, "difference", counting)
    first = tradeoff.payload(analysis.params, analysis.rows, None)
    assert asked
    assert len(asked) == len(set(asked))
    asked.clear()
    assert tradeoff.payload(analysis.params, analysis.rows, None) == first
    assert asked == []
