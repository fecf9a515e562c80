"""The trade-off plots: hover, click, axes, and who is placed."""

from __future__ import annotations

import json
import re

from hostile_project import LONG

READ = "document.getElementById('chart-data').textContent"


def label(page, plot, name):
    return page.locator(f"#{plot} svg text", has_text=name).last


def numbers(page):
    return json.loads(page.evaluate(READ))["tradeoff"]


def choose(page, plot, which, title):
    figure = page.locator("figure.tradeoff", has=page.locator(f"#{plot}"))
    figure.locator("label", has_text=re.compile(f"^{which}")).locator("select").select_option(title)
    return figure


def test_pointing_at_a_variant_shows_its_numbers(visit):
    page = visit()
    label(page, "tradeoff-1", "int8").hover()
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "int8" in tip.text_content()
    assert "Decode speed vs baseline" in tip.text_content()
    assert "0.25×" in tip.text_content()


def test_clicking_a_variant_shows_it_alone_and_again_all(visit):
    page = visit()
    label(page, "tradeoff-1", "int8").click()
    assert page.locator("#main-table tbody tr:visible").count() == 1
    assert page.locator("#variants input:checked").count() == 1
    label(page, "tradeoff-1", "int8").click()
    assert page.locator("#main-table tbody tr:visible").count() == 4


def test_axes_are_chosen_by_their_labels(visit):
    page = visit()
    figure = choose(page, "tradeoff-1", "Across", "Weights on disk")
    page.locator("#tradeoff-1 svg text", has_text="Weights on disk (MiB), lower is better").wait_for()
    assert figure.locator(".title").text_content() == "Quality × Weights on disk"
    choose(page, "tradeoff-1", "Up", "KL divergence, mean")
    page.locator("#tradeoff-1 svg text", has_text="KL divergence, mean, lower is better").wait_for()


def test_places_are_those_that_python_found(visit):
    page = visit()
    found = numbers(page)
    names = [axis["name"] for axis in found["axes"]]
    pair = sorted((names.index("weight_bytes"), names.index("speedup")))
    beaten = found["places"][f"{pair[0]},{pair[1]}"]
    assert beaten[LONG] == []
    assert beaten["int8"] == [LONG]
    choose(page, "tradeoff-1", "Across", "Weights on disk")
    figure = choose(page, "tradeoff-1", "Up", "Decode speed vs baseline")
    places = figure.locator(".places").text_content()
    assert f"int8: dominated by {LONG}" in places
    assert len(found["places"]) == len(names) * (len(names) - 1) / 2


def test_a_variant_without_a_value_is_listed_and_not_drawn(visit):
    page = visit()
    figure = choose(page, "tradeoff-2", "Across", "Peak memory")
    assert LONG not in figure.locator(".places").text_content()
    absent = figure.locator(".absent").text_content()
    assert absent.startswith(f"Not placed: {LONG} (no Peak memory: ")
    assert "int4-awq (failed: quantize: out of memory" in absent
    assert page.locator("#tradeoff-2 svg text", has_text=LONG[:9]).count() == 0
    assert page.locator("#tradeoff-2 svg text", has_text="int8").count() > 0
    assert page.locator("#tradeoff-1 svg text", has_text=LONG[:9]).count() > 0, "where it has a value it is drawn"


def test_intervals_are_drawn(visit):
    page = visit()

    def spans(layer, end):
        lines = page.locator(f"#tradeoff-1 svg .layer_{layer}_marks line").all()
        return [abs(float(line.get_attribute(end) or 0)) for line in lines]

    assert [max(spans(0, "x2")) > 1, max(spans(0, "y2"))] == [True, 0]
    assert [max(spans(1, "y2")) > 10, max(spans(1, "x2"))] == [True, 0]


def test_among_many_points_only_those_that_matter_are_named(visit, crowded_report):
    page = visit(path=crowded_report)
    names = page.locator("#tradeoff-1 svg .layer_4_marks text")
    assert [name for name in names.all_text_contents() if name] == ["fp16"]
    page.locator("#variants").get_by_label("slow-3").uncheck()
    for other in ("fp16", "slow-0", "slow-1"):
        page.locator("#variants").get_by_label(other).uncheck()
    page.locator("#tradeoff-1 svg .layer_4_marks text", has_text="slow-9").wait_for()
    named = [name for name in names.all_text_contents() if name]
    assert named == ["fp16", "slow-2", *(f"slow-{n}" for n in range(4, 10))]
