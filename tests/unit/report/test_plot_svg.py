from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

from pipeline.report import plot_svg
from pipeline.report.analysis import analyse

SCORES = [1.0] * 72 + [0.0] * 48


def texts(svg):
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def drawn(analysis):
    return plot_svg.render(analysis.rows, analysis.decision.pick)


def test_every_variant_with_both_values_is_drawn_and_the_others_named(project, four_variants):
    analysis = analyse(project.write(*four_variants))
    svg = drawn(analysis)
    found = texts(svg)
    assert {"fp16", "int8", "int4-gptq"} <= set(found)
    assert any("not drawn, since a value is missing: int4-awq" in text for text in found)
    assert (
        len(re.findall(r'<path aria-label="[^"]*"[^>]*role="graphics-symbol" aria-roledescription="circle"', svg)) == 3
    )


def test_the_same_rows_give_the_same_bytes_and_few_of_them(project, four_variants):
    analysis = analyse(project.write(*four_variants))
    assert drawn(analysis) == drawn(analysis)
    assert len(drawn(analysis)) < 40_000


def test_it_asks_nothing_of_the_network_and_every_colour_has_one_by_night(project, four_variants):
    svg = drawn(analyse(project.write(*four_variants)))
    assert not re.search(r'(href|src)="(?!#)', svg)
    assert "<script" not in svg
    colours = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', svg))
    assert colours
    assert colours <= set(plot_svg._DARK)
    assert svg.count("prefers-color-scheme: dark") == 1


def test_bars_are_as_long_as_the_intervals(project, four_variants):
    """int4-gptq: 1.25× with an interval of a factor 1.02839 to either side."""
    analysis = analyse(project.write(*four_variants))
    row = next(row for row in analysis.rows if row.variant == "int4-gptq")
    point = plot_svg._point(row, "int4-gptq", True)
    assert point["role"] == plot_svg.PICKED
    assert [round(point[name], 4) for name in ("x_low", "x", "x_high")] == [1.2155, 1.25, 1.2855]
    assert point["y"] == -2.5
    assert point["y_low"] < point["y"] < point["y_high"]


def test_nothing_measured_is_still_a_picture(project, build):
    svg = drawn(analyse(project.write(build.failed("fp16"), build.failed("int8"))))
    assert any("fp16, int8" in text for text in texts(svg))


def test_of_many_variants_only_baseline_and_pick_are_named(project, build):
    many = [build.evidence(f"v{n}", SCORES, tpot_s=0.05 + n / 1000) for n in range(plot_svg._NAMED + 1)]
    analysis = analyse(project.write(build.evidence("fp16", SCORES), *many))
    named = {row.variant for row in analysis.rows} & set(texts(drawn(analysis)))
    assert named == {"fp16", analysis.decision.pick}


def test_names_are_escaped(project, build):
    analysis = analyse(project.write(build.evidence("fp16", SCORES)))
    rows = [replace(row, variant="<script>") for row in analysis.rows]
    assert "<script" not in plot_svg.render(rows, None)
