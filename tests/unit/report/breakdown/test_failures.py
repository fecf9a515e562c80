"""Failed requests are counted with the first reason; refused numbers are told with what they are and why."""

from __future__ import annotations

from pipeline.readings import Failure, FailureKind, Side
from pipeline.records import known
from pipeline.report.breakdown import failures


def failure(kind=FailureKind.TIMEOUT, **changes) -> Failure:
    fields = {
        "process": 0,
        "side": Side.VARIANT,
        "step": "request",
        "workload": "instruction",
        "concurrency": 8,
        "kind": kind,
        "reason": "no answer within 120 s",
    }
    return Failure(**(fields | changes))


def test_failures_of_one_kind_are_counted_together(gathered, measured):
    found = [
        failure(),
        failure(process=1, reason="the second one"),
        failure(FailureKind.SKIPPED, reason="time spent"),
        failure(concurrency=4),
        failure(side=Side.BASELINE),
        failure(FailureKind.WORKER_DIED, step="load", workload=None, concurrency=None, reason="killed by signal 9"),
    ]
    _, variants = gathered(measured("fp16", failures=found))
    assert [(lost.variant, lost.words, lost.reason) for lost in failures.lost(variants)] == [
        ("fp16", "variant, instruction × 8: 2 × timeout", "no answer within 120 s"),
        ("fp16", "variant, instruction × 8: 1 × skipped", "time spent"),
        ("fp16", "variant, instruction × 4: 1 × timeout", "no answer within 120 s"),
        ("fp16", "baseline, instruction × 8: 1 × timeout", "no answer within 120 s"),
        ("fp16", "variant, load: 1 × worker died", "killed by signal 9"),
    ]


def test_everything_that_is_refused_is_told(gathered, build, measured):
    short = build.workload(concurrency=2, pairs=build.pairs(build.request(tokens=31), build.request()))
    uneven = [
        pair.model_copy(update={"variant": build.request(tpot_s=gap)})
        for pair, gap in zip(build.pairs(build.request(), build.request()), [0.05, 0.1, 0.2] * 7, strict=True)
    ]
    wide = build.workload(concurrency=4, pairs=uneven)
    swapped = [build.process(swap_bytes=known(2**20))]
    _, variants = gathered(measured("fp16", build.workload(), short, wide, processes=swapped))
    assert [(part.what, part.reason) for part in failures.refused(variants)] == [
        ("every time, rate and ratio", "1.00 MiB of the worker were in swap"),
        ("peak memory", "1.00 MiB of the worker were in swap"),
        ("instruction × 2: times, rates and ratios", "an output of 31 tokens where 32 are pinned"),
        ("instruction × 4: times and rates", "decode rates spread over 150.0 % of their median, 25.0 % is allowed"),
    ]


def test_a_failed_variant_has_no_numbers_to_refuse(gathered, build):
    _, variants = gathered(build.evidence("fp16"), build.failed("int8"))
    assert failures.refused(variants) == []
    assert failures.lost(variants) == []
