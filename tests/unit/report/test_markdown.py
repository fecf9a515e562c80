from __future__ import annotations

from dataclasses import replace

from pipeline.records import Status
from pipeline.report import markdown
from pipeline.report.analysis import analyse

SCORES = [1.0] * 72 + [0.0] * 48


def test_the_decision_comes_first_and_everything_is_there(project, four_variants):
    lines = markdown.render(analyse(project.write(*four_variants))).splitlines()
    assert lines[0].startswith("# Ship int4-gptq: 1.25× the decode speed of fp16")
    assert len(lines) <= markdown.LIMIT
    headings = [line for line in lines if line.startswith("## ")]
    assert headings == [
        "## Trade-off",
        "## Failures",
        "## Conditions",
        "## Speed by workload",
        "## Quality by category",
    ]


def test_many_variants_still_fit(project, build):
    variants = [build.evidence("fp16", SCORES), *(build.evidence(f"v{n}", SCORES) for n in range(15))]
    text = markdown.render(analyse(project.write(*variants)))
    assert len(text.splitlines()) <= markdown.LIMIT
    assert text.endswith("*Too long for here, see report.html: Quality by category.*\n")


def test_a_reason_cannot_break_the_table(project, build):
    failed = build.failed("int8", "bad | pipe <b>\nnew line")
    lines = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), failed))).splitlines()
    (line,) = [line for line in lines if line.startswith("| int8 | ❌ FAIL")]
    assert "bad \\| pipe &lt;b> new line" in line


def test_a_de_quantized_baseline_is_said_loudly(project, build):
    fp16 = build.evidence("fp16", SCORES)
    base = fp16.quantize.base.model_copy(update={"provenance": "De-quantized from Q4_1."})
    fp16 = replace(fp16, quantize=fp16.quantize.model_copy(update={"base": base}))
    assert "⚠ The baseline is not an original full-precision model. De-quantized from Q4_1." in markdown.render(
        analyse(project.write(fp16))
    )


def test_nothing_measured_at_all(project, build):
    text = markdown.render(analyse(project.write(build.failed("fp16"), build.failed("int8"))))
    assert text.startswith("# No variant can be shipped yet")
    assert text.count(Status.FAILED.value) >= 2
