"""The whole measurement with real worker processes on a tiny model. Turns alone: ../test_alternation.py."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from unit.runs.jobs import benchmark_job as job
from unit.runs.jobs import sweep

from pipeline import records, residents, store
from pipeline.errors import UserError
from pipeline.probes import hardware
from pipeline.readings import Alternation, FailureKind, Side, SpeedRecord, Stop
from pipeline.records import Status
from pipeline.residents import Message, Reply, Resident, Turn
from pipeline.runs import benchmark
from pipeline.smoke_records import SmokeVerdict

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture(scope="module")
def measured(made: Path, tmp_path_factory: pytest.TempPathFactory) -> SpeedRecord:
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("measured") / "project"))
    before = Path.cwd()
    os.chdir(folder)
    try:
        return benchmark.run(job())
    finally:
        os.chdir(before)


def test_a_real_tiny_model_is_measured_against_itself(measured: SpeedRecord) -> None:
    assert measured.status is Status.OK, measured.reason
    assert measured.alternation is Alternation.RESIDENT
    assert measured.failures == []
    assert measured.stop in (Stop.BUDGET, Stop.PRECISE)
    assert measured.baseline == "one"
    assert measured.artifact_sha256 == measured.baseline_artifact_sha256
    assert measured.environment_sha256
    assert measured.engine is not None
    assert measured.engine.kernels == {"Linear": 14}
    assert measured.engine.threads == 1
    assert measured.engine.settings == {
        "threads": "1",
        "cores": "all",
        "waiting": "passive",
        "allocator": "default",
    }
    assert measured.seed == 7
    # What goes to the file comes back the same.
    assert SpeedRecord.model_validate_json(measured.model_dump_json()) == measured


def test_every_level_has_its_pairs_from_three_processes(measured: SpeedRecord) -> None:
    assert [(w.workload, w.concurrency, len(w.pairs)) for w in measured.workloads] == [("short", 1, 6), ("short", 2, 3)]
    for workload in measured.workloads:
        assert {pair.process for pair in workload.pairs} == {0, 1, 2}
        assert (workload.prompt_tokens, workload.output_tokens) == (24, 3)
        for pair in workload.pairs:
            assert pair.baseline is not None
            for reading in (pair.variant, pair.baseline):
                assert len(reading.token_s) == 3
                assert reading.token_s == sorted(reading.token_s)
                assert reading.cpu_s is not None
                assert reading.device_s is None
                assert (reading.prefill_s is not None) == (workload.concurrency == 1)


def test_both_sides_are_processes_of_their_own_with_their_memory(measured: SpeedRecord) -> None:
    assert sorted((p.process, p.side) for p in measured.processes) == [
        (number, side) for number in range(3) for side in (Side.BASELINE, Side.VARIANT)
    ]
    assert {p.alternation for p in measured.processes} == {Alternation.RESIDENT}
    for process in measured.processes:
        assert process.load_s > 0
        assert [(peak.concurrency, peak.tokens) for peak in process.peaks] == [(1, 27), (2, 54)]
        assert all(peak.peak_bytes.value for peak in process.peaks)
        assert process.memory.weight_bytes.value
        assert process.memory.process_load_peak_bytes.value
        assert process.memory.process_run_peak_bytes.value
        assert process.memory.nvml_process_bytes.reason == "the model runs on the CPU"
        assert process.swap_bytes.value == 0
        assert process.throttled_share.reason


def test_an_idle_worker_sleeps(measured: SpeedRecord) -> None:
    for process in measured.processes:
        assert process.idle_cpu_share.value is not None
        assert process.idle_cpu_share.value < 0.5, "it waits in a read, it does not poll"


def test_cache_and_device_are_probed_once(measured: SpeedRecord) -> None:
    cache, limits = measured.kv_cache, measured.limits
    assert cache is not None
    assert limits is not None
    per_token = 2 * cache.layers * cache.kv_heads * cache.head_dim * cache.bytes_per_element
    assert cache.measured_bytes == cache.measured_tokens * per_token
    assert set(limits.bytes_per_s) == {"copy", "add", "read"}
    assert measured.decode_weight_bytes
    assert measured.parameters


def asking(monkeypatch: pytest.MonkeyPatch, change: Callable[[Resident, Message], None]) -> None:
    """Do something to the worker before each message."""
    real = Resident.ask

    def ask(self: Resident, message: Message, expected: type[Reply], timeout_s: float) -> Reply:
        change(self, message)
        return real(self, message, expected, timeout_s)

    monkeypatch.setattr(residents.Resident, "ask", ask)


# Turns of one pair of processes show how failures are counted as well as three would.
ONCE: dict[str, Any] = {"sweep": sweep(), "processes": 1}


def test_a_killed_worker_costs_its_pair_of_processes_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [0]

    def kill_once(worker: Resident, message: Message) -> None:
        turns[0] += isinstance(message, Turn)
        if turns[0] == 6:
            turns[0] += 1
            os.kill(worker.pid, signal.SIGKILL)

    asking(monkeypatch, kill_once)
    record = benchmark.run(job(**ONCE))
    assert record.status is Status.OK, record.reason
    [failure] = record.failures
    assert failure.kind is FailureKind.WORKER_DIED
    assert (failure.process, failure.step, failure.workload) == (0, "request", "short")
    assert "SIGKILL" in failure.reason
    assert {pair.process for pair in record.workloads[0].pairs} == {0, 1}, "what it had taken is kept"


def test_a_request_over_its_time_is_counted_and_its_worker_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def freeze_once(worker: Resident, message: Message) -> None:
        if isinstance(message, Turn) and not seen:
            seen.append(worker.pid)
            os.kill(worker.pid, signal.SIGSTOP)

    asking(monkeypatch, freeze_once)
    record = benchmark.run(job(**ONCE, request_timeout_s=8))
    assert record.status is Status.OK, record.reason
    assert [f.kind for f in record.failures] == [FailureKind.TIMEOUT]
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)


def test_a_variant_that_never_loads_is_a_failed_row_with_its_reason() -> None:
    for weights in store.artifact("one").glob("*.safetensors"):
        weights.write_bytes(b"no weights")
    record = benchmark.run(job())
    assert record.status is Status.FAILED
    assert record.reason is not None
    assert record.reason.startswith("no reading of workload short: error, ")
    assert [f.step for f in record.failures] == ["load", "load"]
    assert record.workloads[0].pairs == []


def test_without_a_baseline_the_variant_is_measured_alone() -> None:
    record = benchmark.run(job(**ONCE, baseline="none"))
    assert record.status is Status.OK, record.reason
    assert record.alternation is Alternation.ALONE
    assert record.alternation_reason == f"the baseline none: {store.NO_ARTIFACT}"
    assert record.stop is Stop.NO_PAIRS
    assert all(pair.baseline is None for pair in record.workloads[0].pairs)
    assert len(record.workloads[0].pairs) == 2


def test_a_baseline_that_never_loads_leaves_the_variant_alone() -> None:
    shutil.copytree(store.artifact("one"), store.artifact("broken"))
    for weights in store.artifact("broken").glob("*.safetensors"):
        weights.write_bytes(b"no weights")
    records.save(store.smoke_verdict("broken"), SmokeVerdict(reason=None))
    record = benchmark.run(job(**ONCE, baseline="broken", alternation="resident"))
    assert record.status is Status.OK, record.reason
    assert record.alternation is Alternation.ALONE
    assert record.alternation_reason is not None
    assert "could not be loaded" in record.alternation_reason


def test_models_that_do_not_fit_side_by_side_take_turns_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "available_bytes", lambda: 2**30)
    record = benchmark.run(job(**ONCE))
    assert record.status is Status.OK, record.reason
    assert record.alternation is Alternation.BLOCKS
    assert record.alternation_reason is not None
    assert record.alternation_reason.startswith("both models need about 2.")
    assert all(pair.baseline for pair in record.workloads[0].pairs)


def test_a_wrong_core_is_the_user_s_mistake() -> None:
    with pytest.raises(UserError, match=r"runtime\.cores"):
        benchmark.run(job(cores=[9999]))


def test_an_artifact_that_is_not_complete_is_not_measured() -> None:
    (store.artifact("one") / store.MANIFEST).unlink()
    with pytest.raises(UserError, match=r"manifest\.json: missing"):
        benchmark.run(job())


def test_no_worker_outlives_the_measurement() -> None:
    benchmark.run(job(**ONCE))
    children = psutil.Process().children(recursive=True)
    assert not any("pipeline.runs.measure" in child.cmdline() for child in children)
