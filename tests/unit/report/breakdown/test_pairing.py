"""The sentence on each speed-up. With three processes that agree, the interval is e^± 0.028 (the least spread)."""

from __future__ import annotations

import pytest

from pipeline.readings import Alternation, Stop
from pipeline.report.breakdown import pairing


def words(gathered, *variants) -> dict[str, str]:
    params, found = gathered(*variants)
    return {line.variant: line.words for line in pairing.lines(found, params)}


def test_the_baseline_is_the_noise_floor(gathered, build):
    params, found = gathered(build.evidence("fp16", tpot_s=0.05 / 1.01), build.evidence("int8"))
    floor, other = pairing.lines(found, params)
    assert floor.words == (
        "the baseline against itself: 1.01× (0.98 to 1.04): what this machine adds to a ratio of 1; 21 pairs in 3 "
        "pairs of processes; stopped because the interval reaches at most 3 % to either side"
    )
    assert (floor.is_baseline, other.is_baseline) == (True, False)


@pytest.mark.parametrize(
    ("stop", "end"),
    [
        (Stop.PRECISE, "stopped because the interval reaches at most 3 % to either side"),
        (Stop.BUDGET, "stopped because the budget of 60 s was spent"),
        (Stop.TIME_LIMIT, "stopped because the time limit of the stage, 7200 s, was near"),
        (None, "ended because pairs of processes were lost"),
    ],
)
def test_a_variant_says_why_it_stopped(gathered, build, measured, stop, end):
    ours = measured("int8", build.workload(tpot_s=0.1), stop=stop)
    assert words(gathered, build.evidence("fp16"), ours)["int8"] == (
        f"0.50× (0.49 to 0.51), 21 pairs in 3 pairs of processes; {end}"
    )


def test_blocks_are_told_with_their_reason(gathered, build, measured):
    ours = measured("int8", alternation=Alternation.BLOCKS, alternation_reason="3.2 GiB needed, 2.9 free")
    assert words(gathered, build.evidence("fp16"), ours)["int8"].endswith(
        "; one model was loaded at a time, in blocks: 3.2 GiB needed, 2.9 free"
    )


def test_what_was_measured_alone_has_no_speed_up(gathered, build, measured):
    alone = measured(
        "int8",
        build.workload(pairs=build.pairs(build.request(), None)),
        alternation=Alternation.ALONE,
        alternation_reason="the baseline could not be loaded",
        stop=Stop.NO_PAIRS,
    )
    params, found = gathered(build.evidence("fp16"), alone)
    line = pairing.lines(found, params)[1]
    assert line.speedup is None
    assert (line.cell.text, line.cell.reason) == ("–", line.words)
    assert line.words.endswith("of both variant and baseline: the baseline could not be loaded")


def test_the_second_reading_stands_beside_it(gathered, build, measured):
    """Half of the variant's wall time is waiting, its CPU time is the baseline's."""
    waiting = build.request(tpot_s=0.1, cpu_s=(0.2, 3.3))
    ours = measured("int8", build.workload(pairs=build.pairs(waiting, build.request())))
    params, found = gathered(build.evidence("fp16"), ours)
    line = pairing.lines(found, params)[1]
    assert (line.cell.text, line.work.text) == ("0.50×", "1.00×")
