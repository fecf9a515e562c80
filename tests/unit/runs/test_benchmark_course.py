"""How the measurement goes on or ends, with workers that are no processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from unit.runs.jobs import benchmark_job as job
from unit.runs.jobs import prompts_job, sweep
from unit.workers import DIED, HUNG, OOM, RAISED, Stage, planned

from pipeline import records, store
from pipeline.readings import Alternation, Side, SpeedRecord, Stop
from pipeline.records import Status
from pipeline.residents import Load, Message, Turn, TurnError
from pipeline.runs import benchmark, prompts
from pipeline.smoke_records import SmokeVerdict

pytestmark = pytest.mark.usefixtures("project")


def acted(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> Stage:
    monkeypatch.setattr(benchmark, "Resident", lambda environment, python: stage.start(Side.VARIANT))
    shutil.copytree(store.artifact("one"), store.artifact("two"))
    records.save(store.smoke_verdict("two"), SmokeVerdict(reason=None))
    return stage


def turns_of(record: SpeedRecord) -> dict[tuple[str, int], int]:
    return {(w.workload, w.concurrency): len(w.pairs) for w in record.workloads}


def test_the_deciding_level_is_the_workload_at_its_own_concurrency(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts.run(prompts_job(concurrency=2))
    clock = iter(range(100_000))
    monkeypatch.setattr(benchmark.time, "monotonic", lambda: next(clock))
    acted(monkeypatch, Stage())
    turns = turns_of(benchmark.run(job(baseline="two", sweep=sweep(1, 2), half_width=1e-6, budget_s=200)))
    assert turns["short", 1] == 3
    assert turns["short", 2] > 6


def test_each_side_runs_under_the_interpreter_of_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, started = Stage(), []

    def start(environment: dict[str, str], python: Path) -> object:
        worker = stage.start(Side.VARIANT)
        started.append((worker, str(python)))
        return worker

    acted(monkeypatch, stage)
    monkeypatch.setattr(benchmark, "Resident", start)
    benchmark.run(job(variant="two", python=Path("/of/two"), baseline="one", baseline_python=Path("/of/one")))
    assert {(worker.variant, python) for worker, python in started} == {("two", "/of/two"), ("one", "/of/one")}


def test_more_pairs_of_processes_follow_on_the_deciding_level_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100_000))
    monkeypatch.setattr(benchmark.time, "monotonic", lambda: next(clock))
    acted(monkeypatch, Stage())
    record = benchmark.run(job(baseline="two", half_width=1e-6, budget_s=200))
    assert record.stop is Stop.BUDGET
    turns = turns_of(record)
    assert turns["short", 2] == 3
    assert turns["short", 1] > 6


def test_a_narrow_interval_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    acted(monkeypatch, Stage())
    record = benchmark.run(job(baseline="two", half_width=0.05, budget_s=1e9))
    assert record.stop is Stop.PRECISE
    assert turns_of(record) == {("short", 1): 6, ("short", 2): 3}


def test_nothing_more_is_begun_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    acted(monkeypatch, Stage())
    record = benchmark.run(job(baseline="two", time_limit_s=0))
    assert record.status is Status.OK
    assert record.stop is Stop.TIME_LIMIT
    assert turns_of(record) == {("short", 1): 2, ("short", 2): 1}


def test_two_models_that_do_not_load_side_by_side_take_turns_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    acted(monkeypatch, Stage(planned("two", "load", OOM, times=1)))
    record = benchmark.run(job(baseline="two"))
    assert record.status is Status.OK
    assert record.alternation is Alternation.BLOCKS
    assert record.alternation_reason == "side by side: no room"
    assert {p.alternation for p in record.processes} == {Alternation.BLOCKS}


def test_what_params_ask_for_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    acted(monkeypatch, Stage(planned("two", "load", OOM, times=1)))
    record = benchmark.run(job(baseline="two", alternation="resident"))
    assert record.alternation is Alternation.RESIDENT


def test_a_size_that_does_not_fit_beside_the_other_model_is_measured_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = acted(monkeypatch, Stage())

    def crowded(who: str, message: Message) -> TurnError | None:
        streams = len(message.prompts) if isinstance(message, Turn) else 0
        return OOM if streams == 2 and stage.alive == 2 else None

    stage.fails = crowded
    record = benchmark.run(job(baseline="two"))
    assert record.status is Status.OK
    assert record.alternation is Alternation.RESIDENT
    assert turns_of(record) == {("short", 1): 6, ("short", 2): 3}
    assert all(pair.baseline for pair in record.workloads[1].pairs)
    assert {p.alternation for p in record.processes if p.process >= 3} == {Alternation.BLOCKS}


def test_several_sizes_that_kill_their_workers_leave_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "SPARE_PAIRS", 0)
    stage = acted(monkeypatch, Stage())
    stage.fails = lambda who, message: DIED if isinstance(message, Turn) and len(message.prompts) > 2 else None
    record = benchmark.run(job(baseline="two", sweep=sweep(1, 2, 4, 8, 16)))
    assert record.status is Status.OK, record.reason
    assert turns_of(record) == {("short", 1): 6, ("short", 2): 3, ("short", 4): 0, ("short", 8): 0, ("short", 16): 0}
    assert {f.concurrency for f in record.failures} <= {4, 8}


def test_a_deciding_level_that_never_answers_is_a_failed_row_with_its_own_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = acted(monkeypatch, Stage())

    def fails(who: str, message: Message) -> TurnError | None:
        if who != "one" or not isinstance(message, Turn):
            return None
        return RAISED if len(message.prompts) == 1 else HUNG

    stage.fails = fails
    record = benchmark.run(job(baseline="two"))
    assert record.status is Status.FAILED
    assert record.reason == "no reading of workload short: error, ValueError: x"


def test_processes_that_are_lost_now_and_then_do_not_make_it_measure_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, loads = acted(monkeypatch, Stage()), [0]

    def every_other(who: str, message: Message) -> TurnError | None:
        if who == "two" and isinstance(message, Load):
            loads[0] += 1
            return RAISED if loads[0] % 2 else None
        return None

    stage.fails = every_other
    record = benchmark.run(job(baseline="two"))
    assert record.status is Status.OK
    assert record.alternation is Alternation.RESIDENT
    assert record.stop is Stop.PRECISE
