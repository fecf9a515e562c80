from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

from pipeline import store
from pipeline.metrics.catalogue import BY_NAME
from pipeline.report import breakdown, charts, html
from pipeline.report.analysis import analyse

ATTACK = "<script>alert(1)</script>"
SCORES = [1.0] * 72 + [0.0] * 48
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Open tags, text outside scripts, and where each id stands; fails on tags that do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.texts: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.counts: dict[str, int] = {}
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if "script" not in self.stack and "style" not in self.stack:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def rendered(project, *variants) -> str:
    """Also left in the test's folder, to look at: pytest --basetemp=/tmp/sample."""
    text = html.render(analyse(project.write(*variants)))
    store.write_text(project.folder / "report.html", text)
    return text


def test_the_page_is_whole_and_needs_no_network(project, four_variants):
    text = rendered(project, *four_variants)
    page = Page(text)
    assert "Ship int4-gptq: 1.25× the decode speed of fp16" in page.text
    assert len(page.ids) == len(set(page.ids))
    assert page.counts["script"] == 2
    assert {link[0] for link in page.links} == {"#"}
    assert len(text.encode()) < 6 * 2**20


def test_every_table_has_a_caption_and_scoped_headers(project, four_variants):
    text = rendered(project, *four_variants)
    assert Page(text).counts["caption"] == Page(text).counts["table"]
    assert "<th>" not in text


def test_model_output_is_text(project, build):
    fp16 = build.evidence("fp16", SCORES)
    attacker = build.item("item-000", 0, output=ATTACK, prompt=f"Say {ATTACK}", target=ATTACK, category=ATTACK)
    items = (attacker, *build.items(SCORES)[1:])
    ours = replace(build.evidence("int8", SCORES), quality=(build.scored("int8", items),))
    text = rendered(project, fp16, ours, build.failed("int4", f"{ATTACK} failed"))
    assert ATTACK not in text
    assert "alert(1)" in Page(text).text
    assert Page(text).counts["script"] == 2


def test_a_failed_variant_is_a_row_with_dashes_and_reasons(project, four_variants):
    text = rendered(project, *four_variants)
    assert '<td class="n" title="quantize failed: out of memory">–</td>' in text
    assert "Not drawn, because their status is not ok: int4-awq" in Page(text).text


def test_nothing_measured_still_renders(project, build):
    page = Page(rendered(project, build.failed("fp16"), build.failed("int8")))
    assert "No variant can be shipped yet" in page.text
    assert page.text.count("Nothing to draw") == 3


def test_lost_items_are_capped_and_counted(project, build):
    ours = build.evidence("int8", [0.0] * 30 + SCORES[30:])
    text = rendered(project, build.evidence("fp16", SCORES), ours)
    assert f"30 lost, the first {breakdown.SHOWN_LOST_ITEMS} shown" in Page(text).text


def test_critical_lost_items_come_first(build):
    theirs = (build.item("a", 1), build.item("b", 1, critical=True))
    ours = (build.item("a", 0), build.item("b", 0, critical=True))
    base = replace(build.evidence(), quality=(build.scored("fp16", theirs),))
    lost = replace(build.evidence("int8", baseline=base), quality=(build.scored("int8", ours),))
    (found,) = breakdown.lost_items([base, lost])
    assert [item.item_id for item in found.shown] == ["b", "a"]


def test_charts_hold_every_variant_that_is_ok(project, four_variants):
    analysis = analyse(project.write(*four_variants))
    spec = charts.tradeoff(analysis.rows, analysis.decision.pick, BY_NAME["decode_tokens_per_s"])
    roles = {row["variant"]: row["role"] for rows in spec["datasets"].values() for row in rows if "variant" in row}
    assert roles == {"fp16": "on the frontier", "int8": "dominated", "int4-gptq": "recommended"}
    assert json.loads(json.dumps(spec)) == spec


def test_the_dashed_line_joins_what_is_best_on_two_axes():
    points = [
        {"variant": "a", "x": 1.0, "y": 0.9},
        {"variant": "b", "x": 2.0, "y": 0.8},
        {"variant": "c", "x": 1.5, "y": 0.7},
    ]
    assert charts._best_line(points, higher_is_better=True) == [{"x": 1.0, "y": 0.9}, {"x": 2.0, "y": 0.8}]
    assert charts._best_line(points, higher_is_better=False) == [{"x": 1.0, "y": 0.9}]
