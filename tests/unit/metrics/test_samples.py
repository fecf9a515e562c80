"""How much larger a sample must be. Student's t at 0.98 on each side: 4.849 (2), 3.482 (3), 2.999 (4), 2.757 (5)."""

from __future__ import annotations

import pytest

from pipeline.metrics import catalogue, intervals, pairing, power, samples
from pipeline.metrics.samples import (
    PRACTICAL,
    Items,
    Need,
    PairedItems,
    ProcessPairs,
    Sample,
    Timings,
    Tokens,
    Trials,
    WorstOfCategories,
)
from pipeline.readings import Stop
from pipeline.records import Interval, MoreOf, known


def ends(interval: Interval) -> tuple[float, float]:
    low, high = interval.ci_low.value, interval.ci_high.value
    assert low is not None
    assert high is not None
    return low, high


def words(sample: Sample, *numbers: float) -> str:
    return sample.to_decide(*numbers).words


def more(sample: Sample, *numbers: float) -> int | None:
    return sample.to_decide(*numbers).more


def test_items_shrink_an_interval_by_the_root_and_as_shares_vary():
    # Half-width 0.08, distance 0.05: 100 × (0.08/0.05)² × (0.85 × 0.15) / (0.82 × 0.18) - 100 = 121.1
    assert words(Items(100), 0.9, 0.82, 0.95, 0.85) == "about 122 more items would decide it"
    # The other side: 100 × (0.05/0.03)² × (0.93 × 0.07) / (0.95 × 0.05) - 100 = 280.7
    assert words(Items(100), 0.9, 0.82, 0.95, 0.93) == "about 281 more items would decide it"
    assert Items(100).to_decide(0.9, 0.82, 0.95, 0.9) == Need(MoreOf.ITEMS, None, "")


def test_so_many_more_items_bring_wilsons_interval_to_the_bound(build):
    low, high = ends(intervals.mean_interval(build.items([1] * 80 + [0] * 20), 0))
    # (0.8 - 0.75)² = z² × 0.75 × 0.25 / n: 288.1
    assert words(Items(100), 0.8, low, high, 0.75) == "about 189 more items would decide it"
    assert ends(intervals.mean_interval(build.items([1] * 231 + [0] * 58), 0))[0] == pytest.approx(0.75, abs=1e-3)


def test_paired_items_need_more_by_the_variance_at_the_bound():
    # 26 lost, 24 won of 100: 100 × (0.08/0.06)² - 100 = 77.8, × V(-0.08) / V(-0.10) = 0.49837 / 0.49791: 77.9
    assert words(PairedItems(100, 0.5), -0.02, -0.10, 0.04, -0.08) == "about 78 more items would decide it"
    # 20 lost, 10 won, the other side of the interval: about 100 × (0.06/0.02)² - 100
    assert words(PairedItems(100, 0.3), -0.10, -0.2, -0.04, -0.08).startswith("about 79")
    assert more(PairedItems(100, 0.3), -0.08, -0.1, -0.05, -0.08) is None


def test_where_nothing_differed_fewer_items_are_needed():
    # ± z² / (30 + z²) = 0.113513; z² × 0.92 / 0.08 = 44.2 items have 0.08.
    half = 3.841459 / 33.841459
    assert words(PairedItems(30, 0.0), 0.0, -half, half, -0.08) == "about 15 more items would decide it"


@pytest.mark.parametrize("discordant", [0.0, 0.05, 0.2])
def test_what_a_gate_asks_for_and_what_a_set_is_checked_for_is_one_formula(build, discordant):
    flipped = round(40 * discordant)
    theirs = build.items([1] * flipped + [0] * flipped + [1] * (80 - 2 * flipped))
    ours = build.items([0] * flipped + [1] * flipped + [1] * (80 - 2 * flipped))
    low, high = ends(intervals.difference(ours, theirs, 0))
    needed = power.items_needed(0.03, 2 * flipped / 80, power=0.5)
    said = words(PairedItems(80, 2 * flipped / 80), 0.0, low, high, -0.03)
    assert said == f"about {needed - 80:,} more items would decide it"


def test_categories_that_reach_below_the_bound_are_named_with_what_each_needs():
    def found(count, changed, mean, low, high):
        return PairedItems(count, changed), Interval(n=count, mean=mean, ci_low=known(low), ci_high=known(high))

    refunds, legal, sure = (
        found(100, 0.5, -0.02, -0.10, 0.04),
        found(30, 0.0, 0.0, -0.1135, 0.1135),
        found(500, 0.1, 0.0, -0.03, 0.03),
    )
    sample = WorstOfCategories("desk/refunds", {"desk/refunds": refunds, "law/legal": legal, "desk/sure": sure})
    assert words(sample, -0.02, -0.1135, 0.02, -0.08) == (
        "about so many more items would decide it: 78 of desk/refunds, 15 of law/legal"
    )
    # A bound above the worst category's mean is cleared by that category.
    assert words(sample, -0.02, -0.1135, 0.04, 0.01).endswith("it: 300 of desk/refunds")
    assert more(sample, -0.02, -0.1135, 0.02, -0.02) is None


def test_tokens_of_text_shrink_it_like_items():
    # Half-width 0.01, distance 0.005: 2048 × 4 - 2048
    assert words(Tokens(2048), 1.02, 1.01, 1.03, 1.025) == (
        "about 6,144 more tokens of text would decide it (fidelity.tokens would have to grow)"
    )
    # At the rule of three, 0.005 is 3 / 600.
    assert "about 400 more" in words(Tokens(200), 1.0, 1 - 0.015, 1.0, 1 - 0.005)
    assert Tokens(2048).to_decide(1.02, 1.01, 1.03, 1.02) == Need(MoreOf.TOKENS, None, "")


@pytest.mark.parametrize(
    ("bound", "more"),
    [
        # Half-width log 2, t / √k: 2.799 (3), 1.741 (4), 1.341 (5), 1.125 (6). The share of it that must be left:
        (2**0.63, "about 1 more pair of processes"),  # 1.741 / 2.799 = 0.622
        (2**0.61, "about 2 more pairs of processes"),
        (2**0.48, "about 2 more pairs of processes"),  # 1.341 / 2.799 = 0.479
        (2**0.47, "about 3 more pairs of processes"),
        (2**-0.47, "about 3 more pairs of processes"),
    ],
)
def test_pairs_of_processes_shrink_it_on_the_log_scale_and_by_student_t(bound: float, more: str):
    remedy = "(benchmark.pairing.processes would have to grow)"
    assert words(ProcessPairs(3, None), 1.0, 0.5, 2.0, bound) == f"{more} would decide it {remedy}"


def test_the_half_width_is_that_of_the_side_of_the_bound():
    # log 1.5 is 0.585 of log 2 and 0.292 of log 4; t / √k falls below 0.585 of its value at 3 with 5, below 0.292 at 9.
    below, above = (words(ProcessPairs(3, None), 1.0, 0.5, 4.0, bound) for bound in (1 / 1.5, 1.5))
    assert below.startswith("about 2 more")
    assert above.startswith("about 6 more")


def test_the_remedy_is_what_ended_the_measurement():
    said = {stop: words(ProcessPairs(3, stop), 1.0, 0.5, 2.0, 1.5) for stop in (None, *Stop)}
    assert said[Stop.BUDGET].endswith("(benchmark.pairing.budget_s would have to grow)")
    assert said[Stop.PRECISE].endswith("(benchmark.pairing.half_width would have to shrink)")
    assert said[Stop.TIME_LIMIT].endswith("(benchmark.timeout_s would have to grow)")
    assert said[Stop.NO_PAIRS].endswith("decide it")
    assert said[None].endswith("(benchmark.pairing.processes would have to grow)")
    assert more(ProcessPairs(3, None), 1.0, 0.5, 2.0, 1.0) is None


@pytest.mark.parametrize("margin", [0.02, 0.01, 0.008])
def test_more_than_twenty_times_the_sample_is_no_advice(margin: float):
    # Tango's 0.08 at 100 items shrinks to the margin at about 100 × (0.08 / margin)² items.
    wanted = 100 * (0.08 / margin) ** 2 - 100
    found = PairedItems(100, 0.5).to_decide(0.0, -0.08, 0.08, -margin)
    assert (found.more is None) == (wanted > PRACTICAL * 100)
    assert found.more is None or found.more == pytest.approx(wanted, rel=0.02)
    # t / √k at 63 is 0.265, 0.0946 of that at 3; 0.09 takes more than 60 pairs more.
    assert more(ProcessPairs(3, None), 1.0, 0.5, 2.0, 2**0.095) == 60
    assert more(ProcessPairs(3, None), 1.0, 0.5, 2.0, 2**0.09) is None


def test_a_category_that_no_practical_number_decides_leaves_all_undecided():
    near = PairedItems(100, 0.5), Interval(n=100, mean=-0.0799, ci_low=known(-0.2), ci_high=known(0.05))
    far = PairedItems(100, 0.5), Interval(n=100, mean=-0.02, ci_low=known(-0.1), ci_high=known(0.04))
    found = WorstOfCategories("a/near", {"a/near": near, "a/far": far}).to_decide(-0.0799, -0.2, 0.05, -0.08)
    assert found == Need(MoreOf.ITEMS, None, "")


def test_a_bound_of_zero_is_infinitely_far_from_a_ratio():
    assert more(ProcessPairs(3, None), 1.0, 0.5, 2.0, 0.0) == 1


def test_requests_that_failed_need_more_by_the_exact_interval():
    # Of n without a failure the upper end is 1 - 0.025^(1/n): 3.62 % at 100, 2 % from ln 0.025 / ln 0.98 = 182.6 on.
    assert words(Trials(0, 100), 0.0, 0.0, 0.0362, 0.02) == "about 83 more requests would decide it"
    assert more(Trials(2, 100), 0.02, 0.0024, 0.0704, 0.02) is None
    # No end of 0 of 100 can be below a share of 1 in 100,000 within 20 times as many.
    assert more(Trials(0, 100), 0.0, 0.0, 0.0362, 1e-5) is None


def test_a_percentile_needs_as_many_requests_as_the_share_above_the_bound():
    # None of 21 is above: 0.95^72 < 2.5 % < 0.95^71, so 51 more.
    few = Timings((0.1,) * 21, 95, 3)
    found = few.to_decide(0.1, 0.1, float("inf"), 0.5)
    assert (found.more, found.of) == (51, MoreOf.REQUESTS)
    assert found.words == ("about 51 more requests would decide it (`pairs`: 24 turns in each of 3 pairs of processes)")
    # One in ten is above: 5 % is left below the lower end where P(X >= hits) <= 2.5 % at 5 %.
    found = Timings((0.1,) * 36 + (0.9,) * 4, 95, 4).to_decide(0.1, 0.1, float("inf"), 0.5)
    assert found.more is not None
    assert 40 < found.more < 200
    # Exactly one in twenty.
    assert more(Timings((0.1,) * 38 + (0.9,) * 2, 95, 4), 0.1, 0.1, float("inf"), 0.5) is None


def test_every_metric_with_an_interval_says_what_it_is_over(build):
    base = build.evidence("fp16", [1, 1, 1, 0])
    ours = build.evidence("int8", [1, 1, 1, 1], baseline=base)
    found = {metric.name: metric.sample(ours) for metric in catalogue.METRICS if metric.sample}
    worst = found.pop("worst_category_delta")
    gaps = [found.pop(name) for name in ("tpot_s_p95", "tpot_s_p99")]
    assert [gap.seconds for gap in gaps if isinstance(gap, Timings)] == [pytest.approx((0.05,) * 21)] * 2
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
        "failure_rate": Trials(0, 25),
        **{name: Timings((0.1,) * 21, int(name[-2:]), 3) for name in ("ttft_s_p95", "ttft_s_p99")},
    }
    assert {*found, "worst_category_delta", "tpot_s_p95", "tpot_s_p99"} == {
        metric.name for metric in catalogue.METRICS if metric.low
    }
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
