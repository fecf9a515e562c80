from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.report.analysis import analyse
from pipeline.report.breakdown import fidelity


@pytest.fixture
def lines(project, build):
    """Of a baseline and of a variant with this fidelity record."""

    def read(record, base=None):
        fp16 = replace(build.evidence("fp16"), fidelity=base or build.fidelity("fp16"))
        found = analyse(project.write(fp16, replace(build.evidence("int8"), fidelity=record)))
        return fidelity.lines(found.rows, found.gathered.variants)

    return read


def test_a_variant_that_lost_something(lines, build):
    """2048 tokens: 0.05 nats more at each, and 128 of them another likeliest one."""
    blocks = [build.block(2.05, 2.0, kld=0.02, agreed=60)] * 32
    line = lines(build.fidelity("int8", blocks, kld_p99=0.5, kld_max=1.5))[1]
    assert line.words == (
        "finds the text less likely than fp16 does (perplexity 1.051× (1.051 to 1.051)); KL divergence 0.02 (0.02 to "
        "0.02) on average, 0.5 at the worst token in a hundred, 1.5 at the worst of all; would write the same next "
        "token at 93.8 % (93.6 to 93.9 %) of 2,048 places, another one about once in 16"
    )
    assert [cell.text for cell in line.cells] == ["1.051×", "0.02", "0.5", "1.5", "93.8 %", "7.77"]
    assert [metric.name for metric in fidelity.COLUMNS] == [
        *("ppl_ratio", "kld_mean", "kld_p99", "kld_max", "top1_agreement", "perplexity"),
    ]


@pytest.mark.parametrize(
    ("nlls", "words"),
    [
        ([1.95] * 32, "finds the text likelier than fp16 does"),
        ([1.9, 2.1] * 16, "finds the text as likely as fp16 does"),
        # The ratio is 1.005, and its interval holds 1.
        ([1.9, 2.11] * 16, "finds the text as likely as fp16 does (perplexity 1.005×"),
        ([2.1] * 5, "is compared with fp16 without an interval, since an interval needs 20 blocks of text"),
        ([900.0] * 32, "is compared with fp16 without an interval, since exp(898) is too large a number"),
    ],
)
def test_the_interval_decides_who_finds_the_text_likelier(lines, build, nlls, words):
    line = lines(build.fidelity("int8", [build.block(nll, 2.0) for nll in nlls]))[1]
    assert line.words.startswith(words)


def test_one_that_never_differs_writes_no_other_token(lines, build):
    words = lines(build.fidelity("int8", kld_p99=None))[1].words
    assert words.endswith("would write the same next token at 100.0 % (99.9 to 100.0 %) of 2,048 places")
    assert "worst token in a hundred" not in words


def test_the_baseline_loaded_twice(lines, build):
    same = lines(build.fidelity("int8"))[0]
    assert same.is_baseline
    assert same.words == "loaded twice, gives the same odds at every token: what the others differ by is their own"
    noisy = build.fidelity("fp16", [build.block(kld=0.001)] * 32, kld_max=0.002)
    assert lines(build.fidelity("int8"), noisy)[0].words.startswith(
        "loaded twice, differs from itself: KL divergence 0.001 (0.001 to 0.001) on average, 0 at the worst token in a "
        "hundred, 0.002 at the worst of all. That is what the engine alone adds"
    )


def test_one_that_was_not_compared_says_why(lines, build):
    line = lines(build.fidelity("int8", status="failed", reason="killed"))[1]
    assert line.words == "was not compared: fidelity failed: killed"
    assert {(cell.text, cell.reason) for cell in line.cells} == {("–", "fidelity failed: killed")}
