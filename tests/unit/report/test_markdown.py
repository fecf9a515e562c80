from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import params
from pipeline.metrics.evidence import ScoredSet
from pipeline.quality_records import QualityRecord
from pipeline.readings import Failure, FailureKind, Side
from pipeline.records import Status
from pipeline.report import markdown
from pipeline.report.analysis import analyse

ROOT = Path(__file__).resolve().parents[3]
SCORES = [1.0] * 72 + [0.0] * 48


def lost_request(level, reason="late"):
    return Failure(
        process=0,
        side=Side.VARIANT,
        step="request",
        workload="instruction",
        concurrency=level,
        kind=FailureKind.TIMEOUT,
        reason=reason,
    )


def part(text, title):
    """The lines of one part."""
    lines = text.splitlines()
    start = lines.index(f"## {title}") + 1
    return lines[start : lines.index("", start)]


def test_the_decision_comes_first_then_the_plot_the_table_and_reasons(project, four_variants):
    text = markdown.render(analyse(project.write(*four_variants)))
    lines = text.splitlines()
    assert lines[0].startswith("# Ship int4-gptq: 1.25× (1.22 to 1.29) the decode speed of fp16")
    assert lines[2] == "![Quality against decode speed](report.svg)"
    assert [line for line in lines if line.startswith("## ")] == ["## Why", "## Gates", "## Failures", "## Conditions"]
    assert "`report.html`, made by `dvc repro --single-item report`" in lines[-1]


def test_a_variant_is_a_line_with_its_verdict_deltas_memory_and_cost(project, four_variants):
    """The wall clock of a token is 40 ms: 0.0001 a second / (32 tokens in 1.34 s) × 10⁶ = 4.19."""
    text = markdown.render(analyse(project.write(*four_variants)))
    header = (
        "| Variant | Verdict | Quality vs baseline | Decode speed vs baseline | TTFT P50 | Weights on disk | "
        "Peak memory | Cost per million tokens, USD |"
    )
    assert header in text.splitlines()
    (line,) = [line for line in text.splitlines() if line.startswith("| **int4-gptq**")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1] == "✅ PASS"
    assert re.fullmatch(r"−2\.5 pp \(−\d\.\d to [−+]\d\.\d pp\)", cells[2])
    assert cells[3:] == ["1.25× (1.22 to 1.29)", "100 ms", "90 MiB", "600 MiB", "4.19"]
    assert "| int4-awq | ❌ FAIL | – | – | – | – | – | – |" in text


def test_reasons_name_the_recommended_variant_first(project, four_variants):
    why = part(markdown.render(analyse(project.write(*four_variants))), "Why")
    assert why[0].startswith("- **int4-gptq**: of those that pass every gate")
    assert why[-1] == "- **int4-awq**: failed: quantize: out of memory"


def test_open_gates_say_what_would_decide_them(project, build):
    project.raw["gates"] = {"quality-drop": {"metric": "quality_delta", "at_least": -0.03}}
    ours = build.evidence("int8", [0.0] * 2 + SCORES[2:])
    text = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), ours)))
    (line,) = part(text, "Open gates, and what would decide them")
    assert line.startswith("- **int8, quality-drop**: ")
    assert "more items" in line
    assert "- **int8**" not in "\n".join(part(text, "Why"))


def test_an_open_gate_of_a_variant_that_fails_another_is_not_worth_deciding(project, build):
    project.raw["gates"] = {
        "quality-drop": {"metric": "quality_delta", "at_least": -0.03},
        "tiny": {"metric": "weight_bytes", "at_most": 1.0},
    }
    ours = build.evidence("int8", [0.0] * 2 + SCORES[2:])
    assert "Open gates" not in markdown.render(analyse(project.write(build.evidence("fp16", SCORES), ours)))


def test_what_would_have_to_give_where_nothing_passes(project, build):
    project.raw["gates"] = {"impossible": {"metric": "weight_bytes", "at_most": 1.0}}
    analysis = analyse(project.write(build.evidence("fp16", SCORES)))
    lines = part(markdown.render(analysis), "What would have to give")
    assert len(lines) == len(analysis.decision.would_have_to_give) > 0


def test_failures_are_variants_numbers_and_requests(project, build):
    process = build.process(swap_bytes=build.process().swap_bytes.model_copy(update={"value": 2.0**20}))
    speed = build.speed("fp16", processes=[process], failures=[lost_request(8, "no <room> | left")])
    fp16 = replace(build.evidence("fp16", SCORES), speed=speed)
    lines = part(markdown.render(analyse(project.write(fp16, build.failed("int8")))), "Failures")
    assert lines == [
        "- **int8**: failed: quantize: out of memory",
        "- **fp16**: INVALID, every time, rate and ratio: 1.00 MiB of the worker were in swap",
        "- **fp16**: INVALID, peak memory: 1.00 MiB of the worker were in swap",
        "- **fp16**: variant, instruction × 8: 1 × timeout: no &lt;room> \\| left",
    ]


HOSTILE = "bad | pipe <script>alert(1)</script> `code` ![x](http://x) @someone *b* \\| \n# new heading"


def test_texts_of_others_cannot_break_out(project, build):
    failed = build.failed("int8", HOSTILE)
    text = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), failed)))
    (line,) = [line for line in part(text, "Why") if line.startswith("- **int8**")]
    assert "<script" not in text
    assert line.endswith(
        "bad \\| pipe &lt;script>alert(1)&lt;/script> \\`code\\` !\\[x](http:<!-- -->//x) @<!-- -->someone \\*b\\* "
        "\\\\\\| &#35; new heading"
    )
    assert "\n# new heading" not in text
    assert {line.count(" | ") for line in text.splitlines() if line.startswith("| ")} == {7}


def crowded(project, build, variants, gates, failures):
    """Everything at once, with long texts: failing, undecided and passing variants, warnings, failed requests."""
    long = "very long reason " * 200
    project.raw["gates"] = {f"gate-{n}": {"metric": "quality_delta", "at_least": -0.02} for n in range(gates)}
    project.raw["gates"] |= {f"size-{n}": {"metric": "weight_bytes", "at_most": 2.0**40} for n in range(gates)}
    lost = [lost_request(level, long) for level in range(1, failures + 1)]
    fp16 = replace(build.evidence("fp16", SCORES), speed=build.speed("fp16", failures=lost))
    open_ones = [build.evidence(f"open-{n}", [0.0] * 2 + SCORES[2:]) for n in range(variants)]
    broken = [build.failed(f"broken-{n}", long) for n in range(variants)]
    return analyse(project.write(fp16, *open_ones, *broken))


@pytest.mark.parametrize(("variants", "gates", "failures"), [(1, 1, 1), (8, 6, 12), (30, 20, 60)])
def test_it_never_has_more_than_80_lines_and_says_what_it_left_out(project, build, variants, gates, failures):
    analysis = crowded(project, build, variants, gates, failures)
    text = markdown.render(analysis)
    assert len(text.splitlines()) <= markdown.LIMIT == 80
    assert len(text) < 65_000
    if variants == 30:
        assert f"{61 - markdown.MOST_VARIANTS} more variants are in report.html" in text
        assert f"- and {40 - markdown.MOST_GATES + 1} more gates, in report.html" in text
        for words in ("variants", "open gates", "failures"):
            assert re.search(rf"- and [\d,]+ more {words}, in report.html", text)


def test_items_are_counted_where_the_baseline_was_not_scored(project, build):
    fp16, int8 = build.evidence("fp16", SCORES), build.evidence("int8", SCORES)
    unscored = QualityRecord(variant="fp16", status=Status.FAILED, reason="out of memory", eval_set="support-desk")
    text = markdown.render(analyse(project.write(replace(fp16, quality=(ScoredSet(unscored, (), 1),)), int8)))
    assert "- **Eval sets**: support-desk; 120 items" in text


def test_one_variant_left_out_is_told_in_the_singular(project, build):
    variants = [build.evidence(name) for name in ("fp16", *(f"v{n}" for n in range(markdown.MOST_VARIANTS)))]
    text = markdown.render(analyse(project.write(*variants)))
    assert " 1 more variant is in report.html and pareto.csv." in text


def test_all_parts_at_their_fullest_fit_together():
    """No records fill all of them at once, so their lines are added up: heading, list and empty line of each."""
    lists = (
        *(markdown.MOST_LACKS, markdown.MOST_REASONS, markdown.MOST_GATES),
        *(markdown.MOST_OPEN, markdown.MOST_FAILURES, markdown.MOST_WARNINGS + len(markdown._SHORT) + 1),
    )
    head, table, end = 4, 2 + markdown.MOST_VARIANTS + 3, 1
    assert head + table + sum(1 + most + 1 for most in lists) + end <= markdown.LIMIT


def test_a_full_table_keeps_baseline_and_recommended(project, build):
    """The recommended one is last in params.yaml, after more failed variants than the table holds."""
    failed = [build.failed(f"broken-{n}") for n in range(30)]
    fast = build.evidence("fast", SCORES, tpot_s=0.02, weight_bytes=2**20, peak_bytes=2**26)
    text = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), *failed, fast)))
    names = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")][2:]
    assert names[0] == "| fp16"
    assert names[-1] == "| **fast**"
    assert len(names) == markdown.MOST_VARIANTS


def test_nothing_measured_at_all(project, build):
    text = markdown.render(analyse(project.write(build.failed("fp16"), build.failed("int8"))))
    assert text.startswith("# No variant can be shipped: none passes every gate.")
    assert text.count(Status.FAILED.value) >= 2
    assert len(text.splitlines()) <= markdown.LIMIT


def test_the_shipped_records_fit(monkeypatch):
    monkeypatch.chdir(ROOT)
    text = markdown.render(analyse(params.load()))
    assert len(text.splitlines()) <= 60
    assert len(text) < 12_000


def test_a_de_quantized_baseline_is_said_loudly(project, build):
    fp16 = build.evidence("fp16", SCORES)
    base = fp16.quantize.base.model_copy(update={"provenance": "De-quantized from Q4_1."})
    fp16 = replace(fp16, quantize=fp16.quantize.model_copy(update={"base": base}))
    assert "⚠ The baseline is not an original full-precision model. De-quantized from Q4_1." in markdown.render(
        analyse(project.write(fp16))
    )


def test_conditions_are_short(project, build):
    lines = part(markdown.render(analyse(project.write(build.evidence("fp16", SCORES)))), "Conditions")
    assert [line.partition(":")[0] for line in lines if "⚠" not in line] == [
        "- **Model**",
        "- **Machine**",
        "- **Engine**",
        "- **Eval sets**",
    ]
    assert lines[-1] == "- **Eval sets**: support-desk; 120 items"


def test_a_kernel_that_is_not_native_is_flagged_in_the_table(project, build):
    engine = build.engine(fallback_kernels={"Linear8bitLt": "turns int8 to float32"})
    ours = replace(build.evidence("int8", SCORES), speed=build.speed("int8", engine=engine))
    text = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), ours)))
    assert re.search(r"^\| (\*\*)?int8(\*\*)? \(kernel not native here: speed not representative\) \|", text, re.M)
