"""Every variant on every workload, with the reason where a number is missing."""

from __future__ import annotations

import pytest
from synthetic import HEADLINE

from pipeline.readings import Failure, FailureKind, Side
from pipeline.report.breakdown import speed


@pytest.fixture
def two_workloads(project):
    project.raw["benchmark"]["workloads"]["batch"] = {
        "text": "workloads/b.txt",
        "prompt_tokens": 200,
        "output_tokens": 32,
        "concurrency": 4,
        "pairs": 2,
    }
    return project


def cells_of(block, variant, columns, field):
    line = next(line for line in block.lines if line.variant == variant)
    return {column.metric.name: cell for column, cell in zip(columns, getattr(line, field), strict=True)}


def test_each_workload_at_its_own_concurrency(two_workloads, gathered, build, measured):
    """Four streams: 4 × 32 tokens in 0.1 + 31 × 0.1 s. A level of the sweep is no workload."""
    four = build.workload("batch", tpot_s=0.1, concurrency=4)
    ours = measured("int8", build.workload(), build.workload(concurrency=4, tpot_s=0.2), four)
    params, found = gathered(measured("fp16", build.workload(), four), ours)
    first, second = speed.by_workload(found, params)
    assert (first.workload, first.words) == (HEADLINE, "200 prompt tokens, 32 output tokens, 1 stream")
    assert (second.workload, second.words) == ("batch", "200 prompt tokens, 32 output tokens, 4 streams")
    rates = cells_of(second, "int8", speed.RATES, "rates")
    assert rates["decode_tokens_per_s"].text == "10.0"
    assert rates["aggregate_tokens_per_s"].text == "40.0"
    assert rates["end_to_end_tokens_per_s"].text == "10.0"
    assert str(rates["speedup"]) == "0.50× (0.49 to 0.51)"
    assert str(rates["decode_cost_ratio"]) == "2.00× (1.94 to 2.06)"
    # two busy threads for 0.1 s a step of 4 tokens
    assert rates["decode_cost_s_per_token"].text == "50.0 ms"
    # 0.36 per hour is 0.0001 per second: 0.0001 / 40 × 10⁶
    assert rates["cost_per_million_tokens"].text == "2.50"
    assert cells_of(first, "int8", speed.RATES, "rates")["decode_tokens_per_s"].text == "20.0"


def test_latency_with_the_reason_where_the_sample_is_too_small(gathered, build, measured):
    few = build.workload(pairs=build.pairs(build.request(), build.request(), each=3))
    params, found = gathered(measured("fp16", few))
    [block] = speed.by_workload(found, params)
    latencies = cells_of(block, "fp16", speed.LATENCIES, "latencies")
    assert latencies["ttft_s_p50"].text == "100 ms"
    assert latencies["ttft_s_p95"].text == "–"
    assert latencies["ttft_s_p95"].reason == "P95 needs 20 readings, there are 9"
    assert [latencies[f"itl_s_p{q}"].text for q in (50, 95, 99)] == ["50.0 ms"] * 3
    assert block.lines[0].pairs.text == "9 in 3"


def test_a_workload_that_spreads_too_much_is_invalid_but_keeps_its_ratio(gathered, build, measured):
    """Turns of 50, 100 and 200 ms a token, beside a baseline that is as slow in each."""
    pairs = [
        pair.model_copy(update={"variant": build.request(tpot_s=gap), "baseline": build.request(tpot_s=gap)})
        for pair, gap in zip(build.pairs(build.request(), None), [0.05, 0.1, 0.2] * 7, strict=True)
    ]
    params, found = gathered(measured("fp16", build.workload(pairs=pairs)))
    rates = cells_of(speed.by_workload(found, params)[0], "fp16", speed.RATES, "rates")
    assert rates["decode_tokens_per_s"].text == "INVALID"
    assert rates["decode_tokens_per_s"].reason.startswith("INVALID: decode rates spread over")
    assert rates["cost_per_million_tokens"].text == "INVALID"
    assert str(rates["speedup"]) == "1.00× (0.97 to 1.03)"


def failure(side: Side, **changes) -> Failure:
    fields = {
        "process": 0,
        "side": side,
        "step": "request",
        "workload": "batch",
        "concurrency": 4,
        "kind": FailureKind.OUT_OF_MEMORY,
        "reason": "tried to allocate 2 GiB",
    }
    return Failure(**(fields | changes))


def test_a_workload_that_gave_no_reading_says_why(two_workloads, gathered, build, measured):
    """Not that a percentile has no readings, and not why another level failed."""
    lost = build.workload("batch", concurrency=4, pairs=[])
    other = failure(Side.VARIANT, workload=HEADLINE, concurrency=8, reason="another level")
    ours = measured("int8", build.workload(), lost, failures=[other, failure(Side.VARIANT)])
    params, found = gathered(measured("fp16", build.workload(), build.workload("batch", concurrency=4)), ours)
    block = speed.by_workload(found, params)[1]
    for cell in (*block.lines[1].rates, *block.lines[1].latencies, block.lines[1].pairs):
        assert (cell.text, cell.reason) == ("–", "variant: out of memory: tried to allocate 2 GiB")


def test_where_only_the_baseline_failed_the_rates_stay(two_workloads, gathered, build, measured):
    alone = build.workload("batch", concurrency=4, pairs=build.pairs(build.request(), None))
    ours = measured("int8", build.workload(), alone, failures=[failure(Side.BASELINE)])
    params, found = gathered(measured("fp16", build.workload()), ours)
    rates = cells_of(speed.by_workload(found, params)[1], "int8", speed.RATES, "rates")
    assert rates["decode_tokens_per_s"].text == "20.0"
    assert rates["speedup"].reason == "baseline: out of memory: tried to allocate 2 GiB"


def test_a_variant_that_was_not_measured_says_why(gathered, build):
    params, found = gathered(build.evidence("fp16"), build.failed("int8"))
    [block] = speed.by_workload(found, params)
    for cell in (*block.lines[1].rates, *block.lines[1].latencies, block.lines[1].pairs):
        assert (cell.text, cell.reason) == ("–", "benchmark failed: there is no artifact")
