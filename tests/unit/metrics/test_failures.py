"""What counts as a request that failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from synthetic import Build
from unit.metrics.catalogued import value

from pipeline.metrics.failures import Requests, requests
from pipeline.readings import Failure, FailureKind, Side


def failure(**changes: Any) -> Failure:
    fields: dict[str, Any] = {
        "process": 0,
        "side": Side.VARIANT,
        "step": "request",
        "workload": "instruction",
        "concurrency": 1,
        "kind": FailureKind.TIMEOUT,
        "reason": "120 s",
    }
    return Failure(**(fields | changes))


def test_turns_and_items_that_were_answered(build: Build) -> None:
    # 21 turns and 4 items
    assert requests(build.evidence()) == Requests(0, 25)
    assert value("failure_rate", build.evidence()).value == 0


def test_every_kind_of_failed_turn_of_the_variant_counts_and_no_other(build: Build) -> None:
    ours = build.evidence("int8", baseline=build.evidence())
    counted = [failure(kind=kind) for kind in FailureKind]
    others = [failure(side=Side.BASELINE), failure(step="load", workload=None, concurrency=None), failure(workload="x")]
    ours = replace(ours, speed=build.speed("int8", failures=[*counted, *others]))
    assert requests(ours) == Requests(5, 30)
    assert value("failure_rate", ours).value == 5 / 30


def test_a_level_that_was_given_up_counts_with_all_turns_that_the_baseline_took(build: Build) -> None:
    levels = [build.workload(), build.workload("long"), build.workload(concurrency=8)]
    base = replace(build.evidence(), speed=build.speed("fp16", levels))
    gone = [levels[0], build.workload("long", pairs=levels[1].pairs[:1]), build.workload(concurrency=8, pairs=[])]
    lost = [failure(workload="long", kind=FailureKind.OUT_OF_MEMORY)]
    ours = replace(build.evidence("int8", baseline=base), speed=build.speed("int8", gone, failures=lost))
    # The level at 8 streams has no failure of its own, so that it was not measured is not the variant's fault.
    assert requests(ours) == Requests(20, 21 + 21 + 4)


def test_the_deciding_workload_has_a_number_of_turns_of_its_own(build: Build) -> None:
    long = build.workload(pairs=build.pairs(build.request(), build.request(), each=20))
    base = replace(build.evidence(), speed=build.speed("fp16", [long]))
    ours = replace(build.evidence("int8", baseline=base), speed=build.speed("int8", failures=[failure()]))
    assert requests(ours) == Requests(1, 21 + 1 + 4)


def test_items_that_do_not_fit_the_context_failed(build: Build) -> None:
    ours = build.evidence()
    scored = build.scored("fp16", build.items([1, 0]), over_context=["a", "b", "c"])
    assert requests(replace(ours, quality=(scored,))) == Requests(3, 26)


def test_it_is_missing_where_a_stage_failed(build: Build) -> None:
    assert value("failure_rate", build.failed("int4")).reason == "benchmark failed: there is no artifact"
    unscored = replace(build.evidence(), quality=build.failed("int4").quality)
    assert value("failure_rate", unscored).reason == "evaluate support-desk failed: there is no artifact"
