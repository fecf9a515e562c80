from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from pipeline.metrics import pairing
from pipeline.readings import PairReading, RequestReading
from pipeline.records import known

TURNS = 7


def reading(tpot_s: float, ttft_s: float = 0.1, **changes: object) -> RequestReading:
    """Three tokens."""
    return RequestReading(token_s=[ttft_s, ttft_s + tpot_s, ttft_s + 2 * tpot_s], **changes)


def pair(process: int, variant: RequestReading, baseline: RequestReading | None) -> PairReading:
    return PairReading(process=process, variant_first=True, variant=variant, baseline=baseline)


def decode_pairs(ratios: Sequence[Sequence[float]]) -> list[PairReading]:
    """Pairs of each process whose variant decodes so many times as fast as the baseline."""
    return [
        pair(process, reading(0.1 / ratio), reading(0.1)) for process, group in enumerate(ratios) for ratio in group
    ]


def compared(found: pairing.Speedup | str) -> pairing.Speedup:
    assert isinstance(found, pairing.Speedup), found
    return found


def ends(found: pairing.Speedup) -> tuple[float, float]:
    assert found.low.value is not None
    assert found.high.value is not None
    return found.low.value, found.high.value


# --- the ratios ------------------------------------------------------------------------------------------------


def test_the_ratio_is_the_median_of_the_pairs_not_a_ratio_of_medians():
    # Variant TPOT 1, 2, 6 and baseline TPOT 2, 2, 3: ratios 2, 1 and 0.5, median 1. The medians are 2 and 2 as well,
    # but one more pair of 1 against 4 makes the ratios 4, 2, 1, 0.5, median 1.5, where medians give 2.5 / 1.5.
    pairs = [pair(0, reading(ours), reading(theirs)) for ours, theirs in [(1, 2), (2, 2), (6, 3), (1, 4)]]
    assert compared(pairing.decode_speedup(pairs, 0)).ratio == pytest.approx(math.sqrt(2 * 1))


def test_each_ratio_is_of_its_own_quantity():
    # Variant: TTFT 0.2, TPOT 0.05, so 3 tokens in 0.3 s; baseline: TTFT 0.1, TPOT 0.1, so 3 tokens in 0.3 s too.
    # CPU time after the first token: 0.12 s of the variant, 0.4 s of the baseline. Device time: 0.1 s and 0.125 s.
    ours, theirs = {"cpu_s": (0.4, 0.52)}, {"cpu_s": (0.2, 0.6)}
    pairs = [pair(0, reading(0.05, 0.2, **ours), reading(0.1, 0.1, **theirs))]
    assert compared(pairing.decode_speedup(pairs, 0)).ratio == pytest.approx(2)
    assert compared(pairing.first_token_speedup(pairs, 0)).ratio == pytest.approx(0.5)
    assert compared(pairing.aggregate_speedup(pairs, 0)).ratio == pytest.approx(1)
    assert compared(pairing.decode_cost_ratio(pairs, 0)).ratio == pytest.approx(0.3)
    on_cuda = [pair(0, reading(0.05, 0.2, **ours, device_s=(0.2, 0.3)), reading(0.1, **theirs, device_s=(0.1, 0.225)))]
    assert compared(pairing.decode_cost_ratio(on_cuda, 0)).ratio == pytest.approx(0.8)


def test_only_complete_pairs_count():
    pairs = [*decode_pairs([[2], [2], [2]]), pair(3, reading(0.01), None), pair(4, reading(0.0), reading(0.1))]
    found = compared(pairing.decode_speedup(pairs, 0))
    assert (found.processes, found.pairs) == (3, 3)
    assert found.ratio == pytest.approx(2)


def test_without_a_complete_pair_there_is_a_reason():
    assert pairing.decode_speedup([pair(0, reading(0.1), None)], 0) == (
        "no turn has a reading of both variant and baseline"
    )
    assert isinstance(pairing.decode_cost_ratio(decode_pairs([[1]]), 0), str), "no CPU time was read"


# --- the interval ----------------------------------------------------------------------------------------------


def test_two_pairs_of_processes_have_no_interval():
    found = compared(pairing.decode_speedup(decode_pairs([[1.1] * 20, [1.2] * 20]), 0))
    assert found.low == found.high == found.half_width()
    assert found.low.reason == "an interval needs 3 pairs of processes, there are 2"


def test_processes_that_agree_by_luck_get_the_least_spread():
    # t with 2 degrees of freedom at 0.98 is 4.848732; times 0.01 / √3 = 0.0279942
    low, high = ends(compared(pairing.decode_speedup(decode_pairs([[2.0] * TURNS] * 3), 0)))
    assert (low, high) == pytest.approx((2 * math.exp(-0.0279942), 2 * math.exp(0.0279942)), rel=1e-6)


def test_the_error_is_that_of_a_bootstrap_over_processes():
    # One pair each, log ratios -d, 0, d. Of the 27 draws of 3 processes, the median is -d, 0, d in 7, 13, 7: variance
    # 14/27 d². Times √(3/2) × 4.848732 that is a half-width of 4.2762 d in logs.
    d = 0.1
    pairs = decode_pairs([[math.exp(-d)], [1.0], [math.exp(d)]])
    low, high = ends(compared(pairing.decode_speedup(pairs, 0)))
    expected = math.sqrt(14 / 27 * 3 / 2) * 4.848732 * d
    assert math.log(high) == pytest.approx(expected, rel=0.05)
    assert math.log(low) == pytest.approx(-expected, rel=0.05)


def test_pairs_are_resampled_within_their_process():
    # The processes agree, their pairs do not: a bootstrap over processes alone would see no error at all.
    spread = [math.exp(0.2 * step) for step in (-2, -1, 0, 1, 2)]
    low, _ = ends(compared(pairing.decode_speedup(decode_pairs([spread] * 3), 0)))
    assert math.log(low) < -0.3


@pytest.mark.parametrize("outlier", [3.0, 1 / 3])
def test_a_process_with_few_pairs_is_resampled_at_its_own_size(outlier):
    # Its one pair is the median only of draws that hold nothing else: 1 of 4⁴. Filled up to 7 pairs, it would be so
    # wherever it is drawn three times, and the interval would reach beyond 3.
    pairs = decode_pairs([[1.0] * 7, [1.0] * 7, [1.0] * 7, [outlier]])
    _, high = ends(compared(pairing.decode_speedup(pairs, 0)))
    assert 1.2 < high < 1.5


def test_the_half_width_is_the_longer_side():
    found = pairing.Speedup(processes=3, pairs=21, ratio=2.0, low=known(1.9), high=known(2.2))
    assert found.half_width().value == pytest.approx(0.1)


def test_the_interval_is_the_same_every_time_whatever_the_order_of_the_pairs():
    pairs = decode_pairs([[1.0, 1.1, 1.3], [1.2, 1.25], [0.9, 1.0, 1.05]])
    found = pairing.decode_speedup(pairs, 7)
    assert pairing.decode_speedup(pairs, 7) == found
    assert pairing.decode_speedup(pairs[::-1], 7) == found
    assert pairing.decode_speedup(pairs, 8) != found


# --- coverage, by simulation -----------------------------------------------------------------------------------


def steady(generator: random.Random) -> float:
    return generator.gauss(0, 0.01)


def noisy(generator: random.Random) -> float:
    return generator.gauss(0, 0.10)


def bursts(generator: random.Random) -> float:
    """1 % noise, and one request in five of either side is twice as slow."""
    slow = (generator.random() < 0.2) - (generator.random() < 0.2)
    return generator.gauss(0, 0.01) + slow * math.log(2)


def processes(
    process_sd: float, noise: Callable[[random.Random], float], generator: random.Random
) -> Iterator[list[PairReading]]:
    """Pair of processes after pair of processes; the true ratio is 1."""
    number = 0
    while True:
        own = generator.gauss(0, process_sd)
        logs = [own + noise(generator) for _ in range(TURNS)]
        yield [
            pair(
                number,
                RequestReading.model_construct(token_s=[0.0, math.exp(-log)]),
                RequestReading.model_construct(token_s=[0.0, 1.0]),
            )
            for log in logs
        ]
        number += 1


def covered(source: Iterator[list[PairReading]], most: int) -> bool:
    """Whether the interval holds 1 when measuring stops at a half-width of 3 %, at the latest after `most`."""
    pairs: list[PairReading] = []
    for count, more in enumerate(source, start=1):
        pairs += more
        if count < pairing.MIN_PROCESSES:
            continue
        found = compared(pairing.decode_speedup(pairs, 0))
        width = found.half_width().value
        assert width is not None
        if width <= 0.03 or count == most:
            low, high = ends(found)
            return low <= 1 <= high
    raise AssertionError("the source is endless")


@pytest.mark.parametrize(
    ("process_sd", "noise", "most"),
    [
        (0.07, steady, 3),
        (0.05, steady, 8),
        (0.035, noisy, 3),
        (0.02, bursts, 3),
        (0.0, bursts, 8),
    ],
)
def test_the_interval_covers_the_truth(process_sd, noise, most):
    """The full table stands in docs/metrics.md. 200 draws at 95 % have a standard deviation of 1.5 points."""
    generator = random.Random(1)
    hits = sum(covered(processes(process_sd, noise, generator), most) for _ in range(200))
    assert hits / 200 >= 0.925


def test_percentiles_of_the_bootstrap_would_not_do():
    """Why there is a t factor: with three processes, the range of their medians holds the truth 75 times in 100."""
    generator = random.Random(2)
    draws = [[generator.gauss(0, 0.05) for _ in range(3)] for _ in range(2000)]
    assert sum(min(draw) <= 0 <= max(draw) for draw in draws) / 2000 == pytest.approx(0.75, abs=0.03)
