from __future__ import annotations

import pytest

from pipeline.metrics import latency
from pipeline.metrics.roofline import Bound, Roofline, Work, utilisation
from pipeline.readings import DeviceLimits
from pipeline.records import known, missing

WORK = Work(weight_bytes=270_000_000, kv_bytes_per_token=23040, parameters=134_500_000)


def limits(best: float = 20e9, flops: float | None = 5e11) -> DeviceLimits:
    rate = known(flops) if flops else missing("not measured")
    return DeviceLimits(bytes_per_s={"copy": 0.9 * best, "read": best}, array_bytes=2**28, flops_per_s=rate)


@pytest.fixture
def speed(build):
    """200 prompt tokens, 32 output tokens, a TPOT of 50 ms: 20 steps per second."""
    return lambda streams=1: latency.summarize(build.workload(concurrency=streams))


def test_mbu_counts_the_weights_once_and_the_cache_of_every_stream(speed):
    # One stream: (270e6 + 23040 × 216) × 20 / 20e9 = 274,976,640 / 1e9
    assert utilisation(WORK, speed(), [limits()]).mbu.value == pytest.approx(0.27497664)
    # Four streams: (270e6 + 4 × 4,976,640) × 20 / 20e9
    assert utilisation(WORK, speed(4), [limits()]).mbu.value == pytest.approx(0.28990656)


def test_mfu_counts_two_operations_for_each_weight_and_stream(speed):
    # 2 × 134.5e6 × 4 × 20 / 5e11
    assert utilisation(WORK, speed(4), [limits()]).mfu.value == pytest.approx(0.04304)


def test_the_best_rate_of_all_probes_is_the_ceiling(speed):
    found = utilisation(WORK, speed(), [limits(10e9, 1e11), limits(40e9, None)])
    assert found.mbu.value == pytest.approx(0.27497664 / 2)
    assert found.mfu.value == pytest.approx(2 * 134.5e6 * 20 / 1e11)


def test_what_was_not_measured_is_missing(build, speed):
    found = utilisation(WORK, speed(), [])
    assert found.mbu.reason == "the memory bandwidth was not measured"
    assert found.mfu.reason == "the compute rate was not measured"
    stopped = latency.summarize(build.workload(pairs=[]))
    assert utilisation(WORK, stopped, [limits()]).mbu.reason == "P50 needs 1 readings, there are 0"


@pytest.mark.parametrize(
    ("mbu", "mfu", "bound"),
    [
        (0.5, 0.4, Bound.BANDWIDTH),
        (0.9, 0.6, Bound.BANDWIDTH),
        (0.6, 0.9, Bound.COMPUTE),
        (0.1, 0.5, Bound.COMPUTE),
        (0.49, 0.3, Bound.OVERHEAD),
        (0.2, 0.49, Bound.OVERHEAD),
        (0.6, None, Bound.BANDWIDTH),
        (0.4, None, Bound.UNKNOWN),
        (None, 0.6, Bound.COMPUTE),
        (None, 0.1, Bound.UNKNOWN),
        (None, None, Bound.UNKNOWN),
    ],
)
def test_what_bounds_decoding(mbu, mfu, bound):
    def share(value):
        return missing("not measured") if value is None else known(value)

    assert Roofline(share(mbu), share(mfu)).bound is bound


def test_one_line_says_it_with_the_numbers():
    assert Roofline(known(0.742), known(0.03)).words == (
        "bound by memory bandwidth: decoding takes 74.2 % of the memory bandwidth and 3.0 % of the compute rate "
        "measured on this device"
    )
    assert Roofline(known(0.2), known(0.03)).words.startswith("bound by overhead (Python, kernel launches")
    assert "an unknown share of the compute rate" in Roofline(known(0.2), missing("x")).words
