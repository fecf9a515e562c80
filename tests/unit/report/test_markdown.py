from __future__ import annotations

import re
from dataclasses import replace

from pipeline.readings import Failure, FailureKind, Side
from pipeline.records import Status, known
from pipeline.report import markdown
from pipeline.report.analysis import analyse

SCORES = [1.0] * 72 + [0.0] * 48


def test_the_decision_comes_first_and_everything_is_there(project, four_variants):
    lines = markdown.render(analyse(project.write(*four_variants))).splitlines()
    assert lines[0].startswith("# Ship int4-gptq: 1.25× (1.22 to 1.29) the decode speed of fp16")
    assert len(lines) <= markdown.LIMIT
    headings = [line for line in lines if line.startswith("## ")]
    assert headings == [
        "## Trade-off",
        "## Failures",
        "## Conditions",
        "## Speed-up",
        "## Speed by workload",
        "## Quality against the baseline",
        "## Quality by category",
        "## Fidelity: the next token on `fidelity/general.txt`",
        "## Memory",
    ]


def test_many_variants_still_fit(project, build):
    variants = [build.evidence("fp16", SCORES), *(build.evidence(f"v{n}", SCORES) for n in range(15))]
    text = markdown.render(analyse(project.write(*variants)))
    assert len(text.splitlines()) <= markdown.LIMIT
    assert text.endswith(
        "*Too long for here, see report.html: Speed by workload, Quality against the baseline, Quality by category, "
        "Fidelity, Memory, Quantization.*\n"
    )


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
    assert text.startswith("# No variant can be shipped: none passes every gate.")
    assert text.count(Status.FAILED.value) >= 2


def test_the_frontier_s_axes_are_named_and_what_it_leaves_out(project, build):
    slow = build.evidence("int8", SCORES, tpot_s=0.1, peak_bytes=2**30)
    text = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), slow)))
    assert [line.split(" | ")[-1] for line in text.splitlines() if re.match(r"\| \w+ \| 60.0 %", line)] == [
        "on it |",
        "dominated |",
    ]
    assert (
        "The frontier is over Quality, Decode speed vs baseline and Peak memory together: a variant is dominated when "
        "another one on it is better beyond the uncertainty on one of them, and its own value is better on none. "
        "Left out: Quality vs baseline, Items lost, "
        "Items won, Decode tokens/s, TTFT P50, TTFT P95, TPOT P50, TPOT P95, Weights on disk, Cost per million tokens."
    ) in text


def test_a_variant_without_a_value_on_an_axis_is_not_called_dominated(project, build):
    process = build.process(swap_bytes=known(2**20))
    ours = replace(build.evidence("int8", SCORES), speed=build.speed("int8", processes=[process]))
    text = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), ours)))
    assert [line.split(" | ")[-1] for line in text.splitlines() if re.match(r"\| \w+ \| 60.0 %", line)] == [
        "on it |",
        "– |",
    ]
    assert "Not placed, since a value on these axes is missing: int8." in text


def test_speed_ups_are_sentences_with_what_bounds_them(project, build):
    ours = build.evidence("int8", SCORES, tpot_s=0.1)
    lines = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), ours))).splitlines()
    (line,) = [line for line in lines if line.startswith("- **int8** 0.50×")]
    assert line.startswith("- **int8** 0.50× (0.49 to 0.51), 21 pairs in 3 pairs of processes; stopped because the ")
    assert "to either side. Bound by overhead (Python" in line


def test_a_workload_is_a_line_and_a_variant_a_column(project, build):
    """20 tokens/s, TTFT 100 ms, and 0.0001 a second / (32 tokens in 1.65 s) × 10⁶."""
    text = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), build.failed("int8"))))
    asked = "instruction: 200 prompt tokens, 32 output tokens, 1 stream"
    assert f"| {asked} | 20.0 · 1.00× (0.97 to 1.03) · 100 ms · 5.16 | – |" in text


def test_the_sweep_and_the_memory_that_fits(project, build):
    project.raw["benchmark"]["sweep"]["concurrency"] = [1, 2]
    levels = [build.workload(), build.workload(concurrency=2)]
    fp16 = replace(build.evidence("fp16", SCORES), speed=build.speed("fp16", levels, context_length=2048))
    text = markdown.render(analyse(project.write(fp16)))
    assert "| Variant | × 1 | × 2 | In words |" in text
    assert "| fp16 | 19.4 · 1.00× (0.97 to 1.03) | 38.8 · 1.00× (0.97 to 1.03) | knee at 2 streams, the highest" in text
    assert "with no queue and no arrivals" in text
    # 3196 MiB of room over 900 MiB, at 22.5 KiB a token, are far more tokens than 8 users × 2048.
    assert "| fp16 | 2,048† | 2,048† | 2,048† | 2,048† | 2,048† | 2,048† |" in text


def test_fidelity_is_a_sentence_for_each_variant(project, build):
    blocks = [build.block(2.05, 2.0, kld=0.02, agreed=60)] * 32
    ours = replace(build.evidence("int8", SCORES), fidelity=build.fidelity("int8", blocks))
    lines = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), ours))).splitlines()
    place = lines.index("## Fidelity: the next token on `fidelity/general.txt`")
    assert lines[place + 1].startswith("- **fp16** loaded twice, gives the same odds at every token")
    assert lines[place + 2].startswith("- **int8** finds the text less likely than fp16 does (perplexity 1.051×")
    assert lines[place + 2].endswith("another one about once in 16.")
    assert lines[place + 3] == ""


def test_what_must_not_be_used_and_what_failed_is_listed(project, build):
    lost = Failure(
        process=0,
        side=Side.VARIANT,
        step="request",
        workload="instruction",
        concurrency=8,
        kind=FailureKind.OUT_OF_MEMORY,
        reason="no <room> | left",
    )
    process = build.process(swap_bytes=known(2**20))
    fp16 = replace(build.evidence("fp16", SCORES), speed=build.speed("fp16", processes=[process], failures=[lost]))
    lines = markdown.render(analyse(project.write(fp16))).splitlines()
    place = lines.index("## Failures")
    assert lines[place + 1 : place + 4] == [
        "- **fp16** INVALID, every time, rate and ratio: 1.00 MiB of the worker were in swap",
        "- **fp16** INVALID, peak memory: 1.00 MiB of the worker were in swap",
        "- **fp16** variant, instruction × 8: 1 × out of memory: no &lt;room> \\| left",
    ]
    (row,) = [line for line in lines if line.startswith("| fp16 | 60.0 %")]
    assert row.count("INVALID") == 8


def test_many_failures_leave_room_for_the_rest(project, build):
    lost = [
        Failure(
            process=0,
            side=Side.VARIANT,
            step="request",
            workload="instruction",
            concurrency=level,
            kind=FailureKind.TIMEOUT,
            reason="late",
        )
        for level in range(1, 41)
    ]
    fp16 = replace(build.evidence("fp16", SCORES), speed=build.speed("fp16", failures=lost))
    text = markdown.render(analyse(project.write(fp16)))
    assert f"- and {40 - markdown.SHOWN_FAILURES} more, in report.html" in text.splitlines()
    assert text.count("1 × timeout") == markdown.SHOWN_FAILURES
    assert "## Speed-up" in text


def test_a_kernel_that_is_not_native_is_flagged_in_the_table(project, build):
    engine = build.engine(fallback_kernels={"Linear8bitLt": "turns int8 to float32"})
    ours = replace(build.evidence("int8", SCORES), speed=build.speed("int8", engine=engine))
    text = markdown.render(analyse(project.write(build.evidence("fp16", SCORES), ours)))
    assert "| int8 (kernel not native here: speed not representative) |" in text
