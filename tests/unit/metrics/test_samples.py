"""How much larger a sample must be. Student's t at 0.98 on each side: 4.849 (2), 3.482 (3), 2.999 (4), 2.757 (5)."""

from __future__ import annotations

import pytest

from pipeline.metrics import catalogue, pairing, samples
from pipeline.metrics.samples import MANY, Items, ProcessPairs
from pipeline.readings import Stop


def test_items_shrink_an_interval_by_the_root():
    # Half-width 0.08, distance 0.06: 100 × (0.08/0.06)² - 100 = 77.8
    assert Items(100).to_decide(-0.02, -0.10, 0.04, -0.08) == "about 78 more items would decide it"
    # The other side of the interval: 100 × (0.06/0.02)² - 100
    assert Items(100).to_decide(-0.10, -0.2, -0.04, -0.08) == "about 800 more items would decide it"
    assert "no number of items" in Items(100).to_decide(-0.08, -0.1, -0.05, -0.08)


def test_items_at_the_floor_shrink_it_faster():
    # 0 ± 3/30 is within 0.08 from 37.5 items on.
    assert Items(30).to_decide(0.0, -0.1, 0.1, -0.08) == "about 8 more items would decide it"


@pytest.mark.parametrize(
    ("bound", "more"),
    [
        # Half-width log 2, t / √k: 2.799 (3), 1.741 (4), 1.341 (5), 1.125 (6). The share of it that must be left:
        (2**0.63, "about 1 more pair of processes"),  # 1.741 / 2.799 = 0.622
        (2**0.61, "about 2 more pairs of processes"),
        (2**0.48, "about 2 more pairs of processes"),  # 1.341 / 2.799 = 0.479
        (2**0.47, "about 3 more pairs of processes"),
        (2**-0.47, "about 3 more pairs of processes"),
        (1.0001, f"over {MANY:,} more pairs of processes"),
    ],
)
def test_pairs_of_processes_shrink_it_on_the_log_scale_and_by_student_t(bound: float, more: str):
    assert ProcessPairs(3, None).to_decide(1.0, 0.5, 2.0, bound) == f"{more} would decide it"


def test_the_half_width_is_that_of_the_side_of_the_bound():
    # log 1.5 is 0.585 of log 2 and 0.292 of log 4; t / √k falls below 0.585 of its value at 3 with 5, below 0.292 at 9.
    below, above = (ProcessPairs(3, None).to_decide(1.0, 0.5, 4.0, bound) for bound in (1 / 1.5, 1.5))
    assert below.startswith("about 2 more")
    assert above.startswith("about 6 more")


def test_the_remedy_is_what_ended_the_measurement():
    words = {stop: ProcessPairs(3, stop).to_decide(1.0, 0.5, 2.0, 1.5) for stop in (None, *Stop)}
    assert words[Stop.BUDGET].endswith("(benchmark.pairing.budget_s would have to grow)")
    assert words[Stop.PRECISE].endswith("(benchmark.pairing.half_width would have to shrink)")
    assert words[Stop.TIME_LIMIT].endswith("(benchmark.timeout_s would have to grow)")
    assert words[Stop.NO_PAIRS].endswith(words[None])
    assert "no number of pairs of processes" in ProcessPairs(3, None).to_decide(1.0, 0.5, 2.0, 1.0)


def test_every_metric_with_an_interval_says_what_it_is_over(build):
    base = build.evidence("fp16", [1, 1, 1, 0])
    ours = build.evidence("int8", [1, 1, 1, 0], baseline=base)
    found = {metric.name: metric.sample(ours) for metric in catalogue.METRICS if metric.sample}
    assert found == {
        "quality": Items(4),
        "quality_delta": Items(4),
        "speedup": ProcessPairs(3, Stop.PRECISE),
        "ttft_speedup": ProcessPairs(3, Stop.PRECISE),
        "decode_cost_ratio": ProcessPairs(3, Stop.PRECISE),
    }
    assert found.keys() == {metric.name for metric in catalogue.METRICS if metric.low}
    assert samples.process_pairs(pairing.decode_speedup)(build.failed("int8")).count == 0


def test_a_metric_is_ranked_by_a_paired_one_that_has_an_interval():
    paired = {metric.name: metric.paired for metric in catalogue.METRICS if metric.paired}
    assert paired == {
        "decode_tokens_per_s": "speedup",
        "tpot_s_p50": "speedup",
        "ttft_s_p50": "ttft_speedup",
        "decode_cost_s_per_token": "decode_cost_ratio",
    }
    assert all(metric.low and metric.versus_baseline for metric in map(catalogue.BY_NAME.__getitem__, paired.values()))
