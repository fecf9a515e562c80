from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from pipeline import store
from pipeline.readings import Alternation, Failure, FailureKind, Side
from pipeline.records import known
from pipeline.report import embed, html
from pipeline.report.analysis import analyse

ATTACK = "<script>alert(1)</script>"
SCORES = [1.0] * 72 + [0.0] * 48
SCRIPTS = 1 + len(html.SCRIPTS) + 2
"""The chart library, our own, and two blocks of data; one where no item changed."""
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
    assert "Ship int4-gptq: 1.25× (1.22 to 1.29) the decode speed of fp16" in page.text
    assert len(page.ids) == len(set(page.ids))
    assert page.counts["script"] == SCRIPTS
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
    assert Page(text).counts["script"] == SCRIPTS


def test_a_failed_variant_is_a_row_with_dashes_and_reasons(project, four_variants):
    text = rendered(project, *four_variants)
    assert "<summary>–</summary><span>quantize failed: out of memory</span></details></td>" in text


def test_the_baseline_s_score_is_known_exactly(project, four_variants):
    text = rendered(project, *four_variants)
    assert 'data-value="1.0">1.00</td>' in text


def test_nothing_measured_still_renders(project, build):
    page = Page(rendered(project, build.failed("fp16"), build.failed("int8")))
    assert "No variant can be shipped: none passes every gate." in page.text
    assert page.text.count("Nothing to draw") == 3


def test_the_frontier_s_axes_are_named(project, four_variants):
    assert (
        "The frontier is over Quality, Decode speed vs baseline and Peak memory together"
        in Page(rendered(project, *four_variants)).text
    )


def test_changed_items_are_counted_and_embedded_once(project, build):
    ours = build.evidence("int8", [0.0] * 30 + SCORES[30:])
    text = rendered(project, build.evidence("fp16", SCORES), ours)
    section = Page(text[text.index('<section id="flips"') : text.index('<section id="fidelity"')]).text
    assert "int8 30 0 0" in section
    data = json.loads(embedded(text, "flip-data"))
    assert len(data["flips"]) == 30
    assert len(data["items"]) == 30


def embedded(text: str, place: str) -> str:
    begin = text.index(f'id="{place}">') + len(f'id="{place}">')
    return text[begin : text.index("</script>", begin)]


def test_only_the_page_s_own_scripts_may_run(project, four_variants):
    text = rendered(project, *four_variants)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    scripts = re.findall(r'<script(?: type="module")?>(.*?)</script>', text, re.DOTALL)
    assert len(scripts) == 1 + len(html.SCRIPTS)
    allowed = policy[1].split("script-src ")[1].split()
    assert allowed == [embed.script_source(script) for script in scripts]
    assert "default-src 'none'" in policy[1]


# --- speed -----------------------------------------------------------------------------------------------------


def swept(project, build, name, gaps, **changes):
    """A variant whose token gaps at 1, 2, 4 … streams these are; the baseline's are 50 ms."""
    project.raw["benchmark"]["sweep"]["concurrency"] = [2**place for place in range(len(gaps))]
    levels = [build.workload(tpot_s=gap, concurrency=2**place) for place, gap in enumerate(gaps)]
    return replace(build.evidence(name, SCORES), speed=build.speed(name, levels, context_length=2048, **changes))


def test_the_speed_sections_say_what_the_records_say(project, build):
    engine = build.engine(fallback_kernels={"Linear8bitLt": "turns int8 to <float32>"})
    ours = swept(project, build, "int8", [0.1, 0.05], engine=engine)
    text = Page(rendered(project, swept(project, build, "fp16", [0.05, 0.05]), ours)).text
    for words in (
        "fp16 the baseline against itself: 1.00× (0.97 to 1.03): what this machine adds to a ratio of 1",
        "int8 0.50× (0.49 to 0.51), 21 pairs in 3 pairs of processes; stopped because",
        "int8 against fp16 slower at 1 stream, not to be told apart at 2 streams; crossover at 2 streams",
        "with no queue and no arrivals",
        "Largest context of each user, prompt and output tokens, that fits 4 GiB",
        "this device moves at best 20.0 GB/s",
        "int8 bound by overhead (Python, kernel launches, unpacking of weights)",
        "At 0.360 USD per hour",
        "instruction 200 prompt tokens, 32 output tokens, 1 stream",
        "goodput counts requests with TTFT ≤ 500 ms and TPOT ≤ 100 ms",
        "kernel not native here: speed not representative",
        "Linear8bitLt turns int8 to <float32>",
    ):
        assert words in text, words


def test_the_fidelity_section_says_what_its_figures_mean(project, build):
    blocks = [build.block(2.05, 2.0, kld=0.02, agreed=60)] * 32
    ours = replace(build.evidence("int8", SCORES), fidelity=build.fidelity("int8", blocks, kld_max=1.5))
    text = rendered(project, build.evidence("fp16", SCORES), ours, build.failed("int4"))
    section = Page(text[text.index('<section id="fidelity"') : text.index('<section id="quantization"')]).text
    for words in (
        "Variant and fp16 read the same text (fidelity/general.txt)",
        "fp16 loaded twice, gives the same odds at every token",
        "int8 finds the text less likely than fp16 does (perplexity 1.051×",
        "int4 was not compared: fidelity failed: there is no artifact",
        "Distance from fp16 with 95 % intervals; fp16 itself was loaded twice",
        "1.02× is 2 % more; 1 is no change",
        "in nats; 0 is not at all",
        "At how many places both would write the same next token",
    ):
        assert words in section, words
    assert "1.051× 1.051 to 1.051 0.02 0.02 to 0.02 0 1.5 93.8 % 93.6 to 93.9 % 7.77" in section


def test_every_section_of_the_navigation_is_there(project, four_variants):
    page = Page(rendered(project, *four_variants))
    assert {f"#{name}" for name, _ in html.SECTIONS} <= set(page.links)
    assert {name for name, _ in html.SECTIONS} <= set(page.ids)


def test_an_invalid_number_is_said_in_its_cell_and_under_failures(project, build):
    process = build.process(swap_bytes=known(2**20))
    fp16 = replace(build.evidence("fp16", SCORES), speed=build.speed("fp16", processes=[process]))
    text = rendered(project, fp16)
    reason = "<summary>INVALID</summary><span>INVALID: 1.00 MiB of the worker were in swap</span>"
    assert f'<td class="n invalid"><details class="reason">{reason}</details></td>' in text
    failures = text[text.index('<section id="failures"') : text.index('<section id="conditions"')]
    assert "every time, rate and ratio" in failures
    assert "1.00 MiB of the worker were in swap" in failures


def test_a_kernel_that_is_not_native_is_flagged_in_the_table(project, build):
    engine = build.engine(fallback_kernels={"Linear8bitLt": "turns int8 to float32"})
    ours = replace(build.evidence("int8", SCORES), speed=build.speed("int8", engine=engine))
    text = rendered(project, build.evidence("fp16", SCORES), ours)
    table = text[text.index('<section id="table"') : text.index('<section id="gates"')]
    assert table.count(">kernel not native here: speed not representative</small>") == 1
    assert "Linear8bitLt turns int8 to float32" in table


def test_reasons_from_the_machine_are_text(project, build):
    failure = Failure(
        process=0,
        side=Side.VARIANT,
        step="request",
        workload="instruction",
        concurrency=8,
        kind=FailureKind.ERROR,
        reason=ATTACK,
    )
    engine = build.engine(fallback_kernels={ATTACK: ATTACK})
    speed = build.speed(
        "fp16",
        failures=[failure],
        engine=engine,
        alternation=Alternation.BLOCKS,
        alternation_reason=ATTACK,
    )
    text = rendered(project, replace(build.evidence("fp16", SCORES), speed=speed))
    assert ATTACK not in text
    page = Page(text)
    assert page.text.count("alert(1)") >= 3
    assert page.counts["script"] == SCRIPTS - 1


def test_without_a_price_the_cost_section_says_so(project, build):
    project.raw["serving"]["price_per_hour"] = None
    assert "No price per hour is given (serving.price_per_hour)." in Page(rendered(project, build.evidence())).text


def test_print_is_dark_on_white_whatever_the_button_chose():
    """The button sets the scheme in a style attribute, which only `!important` outdoes."""
    css = (Path(html.__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
    assert ":root { color-scheme: light !important; }" in css[css.index("@media print") :]
