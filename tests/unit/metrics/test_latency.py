from __future__ import annotations

import pytest

from pipeline.metrics import latency
from pipeline.readings import PairReading, RequestReading, WorkloadReadings

# Four tokens: the first after 0.5 s, then gaps of 0.1, 0.2 and 0.3 s; the last after 1.1 s.
REQUEST = RequestReading(token_s=[0.5, 0.6, 0.8, 1.1], cpu_s=(0.9, 1.5), device_s=(0.4, 0.7), prefill_s=0.4)


def workload(*requests: RequestReading, concurrency: int = 1) -> WorkloadReadings:
    """The requests are the variant's; the baseline's are ten times as slow."""
    slow = RequestReading(token_s=[5.0, 6.0, 8.0, 11.0])
    return WorkloadReadings(
        workload="short",
        concurrency=concurrency,
        prompt_tokens=100,
        output_tokens=4,
        prompt_sha256="0" * 64,
        pairs=[
            PairReading(process=number, variant_first=True, variant=request, baseline=slow)
            for number, request in enumerate(requests)
        ],
    )


def test_ttft_is_the_first_token():
    assert latency.ttft_s(REQUEST) == 0.5


def test_tpot_is_the_time_after_the_first_token_by_the_gaps():
    # (1.1 - 0.5) / (4 - 1) = 0.6 / 3
    assert latency.tpot_s(REQUEST) == pytest.approx(0.2)


def test_tpot_needs_two_tokens():
    with pytest.raises(ValueError, match="two output tokens"):
        latency.tpot_s(RequestReading(token_s=[0.5]))


def test_itl_is_every_gap():
    assert latency.itl_s(REQUEST) == pytest.approx([0.1, 0.2, 0.3])


def test_the_four_rates_differ():
    # decode: 1 / 0.2; end to end: 4 tokens in 1.1 s; aggregate: 3 streams × 4 tokens in 1.1 s;
    # prefill: 3 × 200 tokens in 0.4 s
    assert latency.decode_tokens_per_s(REQUEST) == pytest.approx(5)
    assert latency.end_to_end_tokens_per_s(REQUEST) == pytest.approx(4 / 1.1)
    assert latency.aggregate_tokens_per_s(REQUEST, 3) == pytest.approx(12 / 1.1)
    assert latency.prefill_tokens_per_s(200, 3, 0.4) == pytest.approx(1500)


def test_cost_of_a_decode_step_leaves_the_first_token_out():
    # CPU (1.5 - 0.9) / 3 steps, device (0.7 - 0.4) / 3 steps
    assert latency.decode_cpu_s(REQUEST) == pytest.approx(0.2)
    assert latency.decode_device_s(REQUEST) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "request_",
    [
        RequestReading(token_s=[0.5, 0.6]),
        RequestReading(token_s=[0.5], cpu_s=(0.1, 0.2)),
        RequestReading(token_s=[0.5, 0.6], cpu_s=(0.1, 0.1)),
    ],
)
def test_a_cost_that_was_not_read_is_none(request_):
    assert latency.decode_cpu_s(request_) is None


def test_percentile_interpolates_between_ranks():
    # 21 readings 0..20: rank 0.95 × 20 = 19 exactly; 20 readings 1..20: rank 0.95 × 19 = 18.05, 19 + 0.05 × 1
    assert latency.percentile(range(21), 0.95).value == pytest.approx(19)
    assert latency.percentile(range(1, 21), 0.95).value == pytest.approx(19.05)
    # rank 0.9 × 9 = 8.1 of 10 readings 0..9
    assert latency.percentile(range(10), 0.9).value == pytest.approx(8.1)


def test_percentile_is_independent_of_order():
    assert latency.median([3, 1, 2]).value == 2


def test_median_of_an_even_number_is_the_mean_of_the_middle_two():
    assert latency.median([1, 2, 4, 100]).value == 3


@pytest.mark.parametrize(("n", "q", "needed"), [(19, 0.95, 20), (99, 0.99, 100), (9, 0.9, 10), (0, 0.5, 1)])
def test_a_percentile_of_too_few_readings_is_missing_and_says_so(n, q, needed):
    found = latency.percentile([1.0] * n, q)
    assert found.value is None
    assert found.reason == f"P{100 * q:g} needs {needed} readings, there are {n}"


@pytest.mark.parametrize(("n", "q"), [(20, 0.95), (100, 0.99), (10, 0.9), (1, 0.5)])
def test_a_percentile_of_just_enough_readings_is_there(n, q):
    assert latency.percentile([1.0] * n, q).value == 1


def test_spread_is_the_middle_half_over_the_median():
    # Quartiles of 1..5 are 2 and 4, the median 3
    assert latency.relative_spread([5, 1, 4, 2, 3]).value == pytest.approx(2 / 3)
    assert latency.relative_spread([1, 2, 3]).value is None


def test_summary_is_of_the_variants_side_over_all_processes():
    # TPOT is 0.2 s then 0.1 s: medians 0.15 s; decode rates 5 and 10: median 7.5, which is not 1 / 0.15
    second = RequestReading(token_s=[0.7, 0.8, 0.9, 1.0], cpu_s=(0.5, 0.8), prefill_s=0.5)
    found = latency.summarize(workload(REQUEST, second, concurrency=2))
    assert (found.requests, found.concurrency) == (2, 2)
    assert found.ttft_s_p50.value == pytest.approx(0.6)
    assert found.tpot_s_p50.value == pytest.approx(0.15)
    assert found.latency_s_p50.value == pytest.approx(1.05)
    assert found.decode_tokens_per_s.value == pytest.approx(7.5)
    # gaps 0.1, 0.2, 0.3 and 0.1, 0.1, 0.1
    assert found.itl_s_p50.value == pytest.approx(0.1)
    assert found.end_to_end_tokens_per_s.value == pytest.approx((4 / 1.1 + 4 / 1.0) / 2)
    assert found.aggregate_tokens_per_s.value == pytest.approx(2 * (4 / 1.1 + 4 / 1.0) / 2)
    # 2 × 100 prompt tokens in 0.4 s and in 0.5 s
    assert found.prefill_tokens_per_s.value == pytest.approx((500 + 400) / 2)
    # steps take 0.2 and 0.1 CPU seconds, each gives 2 tokens; only one request has device time
    assert found.decode_cpu_s_per_token.value == pytest.approx((0.1 + 0.05) / 2)
    assert found.decode_device_s_per_token.value == pytest.approx(0.05)


def test_each_percentile_is_refused_by_its_own_sample():
    # 20 requests of 3 gaps: enough for P95 of TTFT and TPOT, and for P95 of 60 gaps, but for no P99
    found = latency.summarize(workload(*[REQUEST] * 20))
    assert found.ttft_s_p95.value == pytest.approx(0.5)
    assert found.tpot_s_p95.value == pytest.approx(0.2)
    assert found.itl_s_p95.value == pytest.approx(0.3)
    assert found.itl_s_p99.reason == "P99 needs 100 readings, there are 60"
    assert found.ttft_s_p99.reason == found.tpot_s_p99.reason == "P99 needs 100 readings, there are 20"


def test_a_workload_without_readings_has_reasons_instead_of_numbers():
    found = latency.summarize(workload(RequestReading(token_s=[0.1])))
    assert found.ttft_s_p50.value == 0.1
    none = (found.tpot_s_p50, found.prefill_tokens_per_s, found.decode_cpu_s_per_token, found.itl_s_p50)
    assert {reading.reason for reading in none} == {"P50 needs 1 readings, there are 0"}
