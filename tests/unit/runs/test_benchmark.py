from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline import checkpoint, progress, store
from pipeline.engines import Completion, EngineOptions
from pipeline.engines import transformers as engine
from pipeline.errors import UserError
from pipeline.probes import process
from pipeline.records import EngineInfo, RequestReading, Status
from pipeline.runs import benchmark

JOB = benchmark.Job(
    variant="one",
    engine="transformers",
    device="cpu",
    compute_dtype={"cpu": "float32", "cuda": "float16"},
    threads=2,
    seed=7,
)

pytestmark = pytest.mark.usefixtures("project")


class FakeSession:
    """Answers each stream with the next of the given lengths, over and over; notes what it was asked."""

    def __init__(self, lengths: Sequence[int] = (3,), misplaced: Sequence[str] = ()) -> None:
        self.asked: list[tuple[str, int]] = []
        self.options: EngineOptions | None = None
        self._lengths = lengths
        self._misplaced = list(misplaced)
        self._streams = 0

    def info(self) -> EngineInfo:
        return EngineInfo(
            name="fake",
            packages={},
            device="cpu",
            device_name="CPU",
            compute_dtype="float32",
            threads=2,
            kernels={"Linear": 1},
            attention="sdpa",
        )

    def weight_bytes(self) -> int:
        return 123

    def misplaced(self) -> list[str]:
        return self._misplaced

    def stream(self, prompt: Sequence[int], output_tokens: int) -> RequestReading:
        self.asked.append(("stream", len(prompt)))
        length = self._lengths[self._streams % len(self._lengths)]
        self._streams += 1
        return RequestReading(token_s=[self._streams + place / 10 for place in range(length)])

    def prefill(self, prompt: Sequence[int]) -> float:
        self.asked.append(("prefill", len(prompt)))
        return float(len(self.asked))

    def generate(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Completion]:
        raise AssertionError("not asked for by a speed benchmark")


def using(monkeypatch: pytest.MonkeyPatch, session: FakeSession) -> FakeSession:
    def load(artifact: Path, options: EngineOptions) -> FakeSession:
        assert artifact == store.artifact("one")
        session.options = options
        return session

    monkeypatch.setattr(engine, "load", load)
    return session


def test_a_real_tiny_model_is_measured() -> None:
    record = benchmark.run(JOB)
    assert record.status is Status.OK, record.reason
    assert record.artifact_sha256 == checkpoint.read_manifest(store.artifact("one")).artifact_sha256
    assert record.environment_sha256 == store.sha256_file(store.ENVIRONMENT)
    assert record.engine is not None
    assert record.engine.kernels == {"Linear": 14}
    assert record.seed == 7
    assert record.load_s is not None
    assert record.load_s > 0
    [workload] = record.workloads
    assert (workload.workload, workload.prompt_tokens, workload.output_tokens) == ("short", 24, 3)
    assert [len(request.token_s) for request in workload.requests] == [3] * 5
    assert len(workload.prefill_s) == 5
    assert all(request.token_s == sorted(request.token_s) for request in workload.requests)
    assert record.memory is not None
    assert record.memory.weight_bytes.value
    assert record.memory.process_load_peak_bytes.value
    assert record.memory.process_run_peak_bytes.value
    for reading in (
        record.memory.allocator_peak_bytes,
        record.memory.allocator_reserved_peak_bytes,
        record.memory.nvml_process_bytes,
    ):
        assert reading.reason == "the model runs on the CPU"
    # What goes to the file comes back the same.
    assert type(record).model_validate_json(record.model_dump_json()) == record


def test_warm_ups_are_not_kept_and_streams_take_turns_with_prefills(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = using(monkeypatch, FakeSession())
    [workload] = benchmark.run(JOB).workloads
    assert session.asked == [("stream", 24), ("prefill", 24)] * 6
    assert [request.token_s[0] for request in workload.requests] == [2, 3, 4, 5, 6]
    assert workload.prefill_s == [4, 6, 8, 10, 12]
    assert workload.warmup == 1
    assert session.options == EngineOptions("cpu", "float32", 2)
    steps = [step for step in map(progress.parse, capsys.readouterr().out.splitlines()) if step]
    assert [(step.done, step.total) for step in steps] == [(done, 12) for done in range(1, 13)]


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ((2,), "short: 3 output tokens were pinned, got [2]"),
        ((3, 3, 4, 1, 3, 3), "short: 3 output tokens were pinned, got [1, 4]"),
        ((3, 3, 3, 3, 3, 0), "short: 3 output tokens were pinned, got [0]"),
    ],
)
def test_an_output_of_another_length_makes_the_run_invalid(
    monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...], words: str
) -> None:
    using(monkeypatch, FakeSession(lengths))
    record = benchmark.run(JOB)
    assert record.status is Status.INVALID
    assert record.reason == words
    assert record.workloads  # the readings are kept for whoever looks for the cause


def test_a_warm_up_of_another_length_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, FakeSession((1, 3, 3, 3, 3, 3)))
    assert benchmark.run(JOB).status is Status.OK


def test_parameters_elsewhere_make_the_run_invalid_before_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    session = using(monkeypatch, FakeSession(misplaced=["a", "b", "c", "d"]))
    record = benchmark.run(JOB)
    assert record.status is Status.INVALID
    assert record.reason == "4 parameters are not on cpu: a, b, c, …"
    assert session.asked == []
    assert record.workloads == []
    assert record.artifact_sha256


def test_a_peak_that_cannot_be_counted_anew_is_missing_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, FakeSession())
    monkeypatch.setattr(process, "reset_peak", lambda: False)
    memory = benchmark.run(JOB).memory
    assert memory is not None
    assert memory.process_run_peak_bytes.value is None
    assert memory.process_run_peak_bytes.reason
    assert memory.process_load_peak_bytes.value
    assert memory.weight_bytes.value == 123


def test_the_run_peak_does_not_hold_what_loading_took(monkeypatch: pytest.MonkeyPatch) -> None:
    if not process.reset_peak():
        pytest.skip("this system does not let the peak be reset")
    session = FakeSession()

    def load(*_: Any) -> FakeSession:
        block = b"x" * (200 * 2**20)
        assert len(block)
        return session

    monkeypatch.setattr(engine, "load", load)
    memory = benchmark.run(JOB).memory
    assert memory is not None
    assert memory.process_load_peak_bytes.value is not None
    assert memory.process_run_peak_bytes.value is not None
    assert memory.process_load_peak_bytes.value - memory.process_run_peak_bytes.value > 150 * 2**20


def test_an_artifact_that_is_not_complete_is_not_measured() -> None:
    (store.artifact("one") / store.MANIFEST).unlink()
    with pytest.raises(UserError, match=r"manifest\.json: missing"):
        benchmark.run(JOB)
