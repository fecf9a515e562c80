"""Levels of one workload. A step of the variant takes 25 ms for one stream, as long as the baseline's for eight."""

from __future__ import annotations

import pytest

from pipeline.readings import Failure, FailureKind, Side
from pipeline.records import known
from pipeline.report.breakdown import concurrency


@pytest.fixture
def swept(project, build, measured, gathered):
    project.raw["benchmark"]["sweep"]["concurrency"] = [1, 2, 4]

    def of(gaps, **changes):
        """The lines of a variant whose token gaps at 1, 2, 4 streams these are; the baseline's are 50 ms."""
        levels = [build.workload(tpot_s=gap, concurrency=2**place) for place, gap in enumerate(gaps)]
        base = [build.workload(concurrency=2**place) for place in range(3)]
        _, found = gathered(measured("fp16", *base), measured("int8", *levels, **changes))
        return concurrency.of(found)

    return of


def test_where_a_variant_stops_being_faster(swept):
    base, ours = swept([0.025, 0.05, 0.1])
    assert ours.words == (
        "against fp16 faster at 1 stream, not to be told apart at 2 streams, slower at 4 streams; crossover at 2 "
        "streams: from there on it is no longer shown to be faster; knee at 1 stream"
    )
    assert base.words == "knee at 4 streams, the highest level: the true one may lie beyond"


def test_the_figures_of_a_level(swept):
    _, ours = swept([0.025, 0.05, 0.1])
    streams = [line.streams for line in ours.lines]
    assert streams == [1, 2, 4]
    # 2 × 32 tokens in 0.1 + 31 × 0.05 s; 21 turns of 2 requests, all good, in 21 × 1.65 s
    titles = [name for name, _ in concurrency.COLUMNS]
    assert dict(zip(titles, map(str, ours.lines[1].cells), strict=True)) == {
        "aggregate_tokens_per_s": "38.8",
        "decode_tokens_per_s": "20.0",
        "ttft_s_p50": "100 ms",
        "ttft_s_p95": "100 ms",
        "goodput_requests_per_s": "1.21",
    }
    assert str(ours.lines[1].speedup) == "1.00× (0.97 to 1.03)"
    assert [line.is_knee for line in ours.lines] == [True, False, False]


def test_faster_at_every_level_has_no_crossover(swept):
    assert "crossover" not in swept([0.025, 0.025, 0.025])[1].words
    assert swept([0.025, 0.025, 0.025])[1].words.startswith("against fp16 faster at 1 to 4 streams; knee at 4 streams")


def test_an_invalid_record_gives_no_levels(swept, build):
    _, ours = swept([0.025, 0.05, 0.1], processes=[build.process(swap_bytes=known(2**20))])
    assert ours.lines == ()
    assert ours.words == "INVALID: 1.00 MiB of the worker were in swap"


def test_nothing_swept(gathered, build):
    _, found = gathered(build.evidence("fp16"))
    assert concurrency.of(found)[0].words == "no workload was swept over concurrencies"


def test_a_level_that_gave_no_reading_says_why(project, build, measured, gathered):
    project.raw["benchmark"]["sweep"]["concurrency"] = [1, 8]
    lost = Failure(
        process=0,
        side=Side.VARIANT,
        step="request",
        workload="instruction",
        concurrency=8,
        kind=FailureKind.OUT_OF_MEMORY,
        reason="tried to allocate 2 GiB",
    )
    levels = [build.workload(), build.workload(concurrency=8, pairs=[])]
    _, found = gathered(measured("fp16", *levels, failures=[lost]))
    first, last = concurrency.of(found)[0].lines
    assert first.cells[0].text == "19.4"
    for cell in (*last.cells, last.speedup):
        assert (cell.text, cell.reason) == ("–", "variant: out of memory: tried to allocate 2 GiB")
