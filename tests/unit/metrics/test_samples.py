"""How much larger a sample must be. Student's t at 0.98 on each side: 4.849 (2), 3.482 (3), 2.999 (4), 2.757 (5)."""

from __future__ import annotations

import pytest

from pipeline.metrics import catalogue, intervals, pairing, power, samples
from pipeline.metrics.samples import MANY, Items, PairedItems, ProcessPairs, Tokens, WorstOfCategories
from pipeline.readings import Stop
from pipeline.records import Interval, known


def ends(interval: Interval) -> tuple[float, float]:
    low, high = interval.ci_low.value, interval.ci_high.value
    assert low is not None
    assert high is not None
    return low, high


def test_items_shrink_an_interval_by_the_root_and_as_shares_vary():
    # Half-width 0.08, distance 0.05: 100 × (0.08/0.05)² × (0.85 × 0.15) / (0.82 × 0.18) - 100 = 121.1
    assert Items(100).to_decide(0.9, 0.82, 0.95, 0.85) == "about 122 more items would decide it"
    # The other side: 100 × (0.05/0.03)² × (0.93 × 0.07) / (0.95 × 0.05) - 100 = 280.7
    assert Items(100).to_decide(0.9, 0.82, 0.95, 0.93) == "about 281 more items would decide it"
    assert "no number of items" in Items(100).to_decide(0.9, 0.82, 0.95, 0.9)


def test_so_many_more_items_bring_wilsons_interval_to_the_bound(build):
    low, high = ends(intervals.mean_interval(build.items([1] * 80 + [0] * 20), 0))
    # (0.8 - 0.75)² = z² × 0.75 × 0.25 / n: 288.1
    assert Items(100).to_decide(0.8, low, high, 0.75) == "about 189 more items would decide it"
    assert ends(intervals.mean_interval(build.items([1] * 231 + [0] * 58), 0))[0] == pytest.approx(0.75, abs=1e-3)


def test_paired_items_need_more_by_the_variance_at_the_bound():
    # 26 lost, 24 won of 100: 100 × (0.08/0.06)² - 100 = 77.8, × V(-0.08) / V(-0.10) = 0.49837 / 0.49791: 77.9
    assert PairedItems(100, 0.5).to_decide(-0.02, -0.10, 0.04, -0.08) == "about 78 more items would decide it"
    # 20 lost, 10 won, the other side of the interval: about 100 × (0.06/0.02)² - 100
    assert PairedItems(100, 0.3).to_decide(-0.10, -0.2, -0.04, -0.08).startswith("about 79")
    assert "no number of items" in PairedItems(100, 0.3).to_decide(-0.08, -0.1, -0.05, -0.08)


def test_where_nothing_differed_fewer_items_are_needed():
    # ± z² / (30 + z²) = 0.113513; z² × 0.92 / 0.08 = 44.2 items have 0.08.
    half = 3.841459 / 33.841459
    assert PairedItems(30, 0.0).to_decide(0.0, -half, half, -0.08) == "about 15 more items would decide it"


@pytest.mark.parametrize("discordant", [0.0, 0.05, 0.2])
def test_what_a_gate_asks_for_and_what_a_set_is_checked_for_is_one_formula(build, discordant):
    flipped = round(40 * discordant)
    theirs = build.items([1] * flipped + [0] * flipped + [1] * (80 - 2 * flipped))
    ours = build.items([0] * flipped + [1] * flipped + [1] * (80 - 2 * flipped))
    low, high = ends(intervals.difference(ours, theirs, 0))
    needed = power.items_needed(0.02, 2 * flipped / 80, power=0.5)
    words = PairedItems(80, 2 * flipped / 80).to_decide(0.0, low, high, -0.02)
    assert words == f"about {needed - 80:,} more items would decide it"


def test_categories_that_reach_below_the_bound_are_named_with_what_each_needs():
    def found(count, changed, mean, low, high):
        return PairedItems(count, changed), Interval(n=count, mean=mean, ci_low=known(low), ci_high=known(high))

    refunds, legal, sure = (
        found(100, 0.5, -0.02, -0.10, 0.04),
        found(30, 0.0, 0.0, -0.1135, 0.1135),
        found(500, 0.1, 0.0, -0.03, 0.03),
    )
    sample = WorstOfCategories("desk/refunds", {"desk/refunds": refunds, "law/legal": legal, "desk/sure": sure})
    assert sample.to_decide(-0.02, -0.1135, 0.02, -0.08) == (
        "about so many more items would decide it: 78 of desk/refunds, 15 of law/legal"
    )
    # A bound above the worst category's mean is cleared by that category.
    assert sample.to_decide(-0.02, -0.1135, 0.04, 0.01).endswith("it: 300 of desk/refunds")
    assert "no number of items" in sample.to_decide(-0.02, -0.1135, 0.02, -0.02)


def test_tokens_of_text_shrink_it_like_items():
    # Half-width 0.01, distance 0.005: 2048 × 4 - 2048
    assert Tokens(2048).to_decide(1.02, 1.01, 1.03, 1.025) == (
        "about 6,144 more tokens of text would decide it (fidelity.tokens would have to grow)"
    )
    # At the rule of three, 0.005 is 3 / 600.
    assert "about 400 more" in Tokens(200).to_decide(1.0, 1 - 0.015, 1.0, 1 - 0.005)
    assert "no length of text" in Tokens(2048).to_decide(1.02, 1.01, 1.03, 1.02)


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
    ours = build.evidence("int8", [1, 1, 1, 1], baseline=base)
    found = {metric.name: metric.sample(ours) for metric in catalogue.METRICS if metric.sample}
    worst = found.pop("worst_category_delta")
    assert isinstance(worst, WorstOfCategories)
    assert found == {
        "quality": Items(4),
        "quality_delta": PairedItems(4, 0.25),
        "speedup": ProcessPairs(3, Stop.PRECISE),
        "ttft_speedup": ProcessPairs(3, Stop.PRECISE),
        "aggregate_speedup": ProcessPairs(3, Stop.PRECISE),
        "decode_cost_ratio": ProcessPairs(3, Stop.PRECISE),
        "ppl_ratio": Tokens(2048),
        "kld_mean": Tokens(2048),
        "top1_agreement": Tokens(2048),
    }
    assert {*found, "worst_category_delta"} == {metric.name for metric in catalogue.METRICS if metric.low}
    # The other two have one item each.
    assert {name: items for name, (items, _) in worst.categories.items()} == {
        "support-desk/policy": PairedItems(2, 0.5)
    }
    assert samples.worst_category(build.failed("int8")) == samples.paired_items(base) == PairedItems(0, 0.0)
    assert samples.process_pairs(pairing.decode_speedup)(build.failed("int8")).count == 0


def test_a_metric_is_ranked_by_a_paired_one_that_has_an_interval():
    paired = {metric.name: metric.paired for metric in catalogue.METRICS if metric.paired}
    assert paired == {
        "decode_tokens_per_s": "speedup",
        "tpot_s_p50": "speedup",
        "ttft_s_p50": "ttft_speedup",
        "aggregate_tokens_per_s": "aggregate_speedup",
        "cost_per_million_tokens": "aggregate_speedup",
        "decode_cost_s_per_token": "decode_cost_ratio",
        "perplexity": "ppl_ratio",
    }
    assert all(metric.low and metric.versus_baseline for metric in map(catalogue.BY_NAME.__getitem__, paired.values()))
