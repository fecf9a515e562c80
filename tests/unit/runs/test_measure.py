"""The measuring process's side of the conversation, in this process with an engine that is none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from pipeline import checkpoint
from pipeline.engines import transformers as engine
from pipeline.errors import UserError
from pipeline.probes import contention, device, limits, placement, process
from pipeline.readings import DeviceLimits, FailureKind, KvCache, RequestReading
from pipeline.records import EngineInfo, known, missing
from pipeline.residents import (
    Answer,
    CacheMeasured,
    Finish,
    Finished,
    LimitsMeasured,
    Load,
    Loaded,
    LogitsWritten,
    MeasureCache,
    MeasureLimits,
    Message,
    ReadLogits,
    Turn,
    TurnTaken,
)
from pipeline.runs import measure

TURN = Turn(prompts=[[1, 2, 3]], output_tokens=2, prefill=True)


class Session:
    """Does as told; counts what was asked."""

    def __init__(self) -> None:
        self.answers = 0
        self.prefills = 0
        self.raises: Exception | None = None

    def info(self) -> EngineInfo:
        return EngineInfo(
            name="fake", packages={}, device="cpu", device_name="", compute_dtype="float32", threads=1, kernels={},
            attention="",
        )  # fmt: skip

    def weight_bytes(self) -> int:
        return 11

    def decode_weight_bytes(self) -> int:
        return 7

    def misplaced(self) -> list[str]:
        return ["a.weight"]

    def next_token_logits(self, token_ids: Sequence[int]) -> Any:
        return numpy.array([[token + 0.25, -1 / 3] for token in token_ids], dtype=numpy.float32)

    def answer(self, prompts: Sequence[Sequence[int]], output_tokens: int) -> RequestReading:
        self.answers += 1
        if self.raises:
            raise self.raises
        return RequestReading(token_s=[0.1, 0.2])

    def prefill(self, prompts: Sequence[Sequence[int]]) -> float:
        self.prefills += 1
        return 0.05

    def kv_cache(self, prompt: Sequence[int]) -> KvCache:
        return KvCache(
            layers=1, kv_heads=1, head_dim=1, bytes_per_element=2, measured_tokens=len(prompt), measured_bytes=12
        )


def load(on: str = "cpu", **changes: Any) -> Load:
    fields: dict[str, Any] = {
        "variant": "one",
        "engine": "transformers",
        "device": on,
        "compute_dtype": {"cpu": "float32", "cuda": "float16"},
        "threads": 1,
        "cores": None,
        "settings": {"waiting": "default"},
        "seed": 0,
        "ours": [5, 6],
    }
    return Load(**(fields | changes))


class Talk:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def __call__(self, message: Message) -> Answer:
        self.connection.send_bytes(message.model_dump_json().encode())
        assert self.connection.poll(30)
        return Answer.model_validate_json(self.connection.recv_bytes())

    def done(self, message: Message, expected: type[Any]) -> Any:
        answer = self(message)
        assert answer.refused is None
        assert answer.mistake is None
        return expected.model_validate(answer.done)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()
    monkeypatch.setattr(engine, "load", lambda artifact, options: made)
    monkeypatch.setattr(device, "seed", lambda value: None)
    return made


@pytest.fixture
def talk() -> Iterator[Talk]:
    ours, theirs = Pipe()
    thread = threading.Thread(target=measure.serve, args=(theirs,))
    thread.start()
    yield Talk(ours)
    ours.close()
    thread.join(10)
    assert not thread.is_alive(), "it ends when its starter closes the pipe"


def test_loading_tells_engine_settings_and_what_is_misplaced(session: Session, talk: Talk) -> None:
    loaded = talk.done(load(), Loaded)
    assert loaded.engine.settings == {"waiting": "default"}
    assert loaded.misplaced == ["a.weight"]
    assert loaded.decode_weight_bytes == 7
    assert loaded.load_s >= 0


def test_a_turn_times_the_prefill_only_when_asked(session: Session, talk: Talk) -> None:
    talk.done(load(), Loaded)
    assert talk.done(TURN, TurnTaken).reading.prefill_s == 0.05
    assert talk.done(TURN.model_copy(update={"prefill": False}), TurnTaken).reading.prefill_s is None
    assert (session.answers, session.prefills) == (2, 1)


def test_logits_are_written_exactly_as_the_engine_gave_them(session: Session, talk: Talk, tmp_path: Path) -> None:
    talk.done(load(), Loaded)
    path = tmp_path / "logits.npy"
    talk.done(ReadLogits(token_ids=[3, 1, 4], path=str(path)), LogitsWritten)
    found = numpy.load(path)
    assert found.dtype == numpy.float32
    assert found.tolist() == session.next_token_logits([3, 1, 4]).tolist()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError("no room"), FailureKind.OUT_OF_MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), FailureKind.OUT_OF_MEMORY),
        (ValueError("bad shape\nsecond line"), FailureKind.ERROR),
    ],
)
def test_an_error_refuses_the_turn_and_the_worker_goes_on(
    session: Session, talk: Talk, error: Exception, kind: FailureKind
) -> None:
    talk.done(load(), Loaded)
    session.raises = error
    refused = talk(TURN).refused
    assert refused is not None
    assert refused.failure is kind
    assert refused.reason.startswith(type(error).__name__)
    assert "\n" not in refused.reason
    session.raises = None
    assert talk.done(TURN, TurnTaken).reading.token_s == [0.1, 0.2]


def test_a_mistake_of_the_user_is_told_as_one(session: Session, talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    def pin(cores: placement.Cores) -> None:
        raise UserError("runtime.cores: no such core")

    monkeypatch.setattr(placement, "pin", pin)
    mistake = talk(load(cores=[9])).mistake
    assert mistake is not None
    assert mistake.problems == ["runtime.cores: no such core"]


def test_memory_and_company_are_the_largest_of_all_turns(
    session: Session, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def each(values: list[Any]) -> Callable[..., Any]:
        left = iter(values)
        return lambda *_: next(left)

    monkeypatch.setattr(contention, "cpu_throttle_count", each([known(4), known(5), known(5), known(5)]))
    talk.done(load(), Loaded)
    monkeypatch.setattr(process, "peak_bytes", each([known(100), known(300), known(200)]))
    monkeypatch.setattr(process, "swapped_bytes", each([known(0), known(9), known(0)]))
    peaks = [talk.done(TURN, TurnTaken).peak_bytes.value for _ in range(3)]
    finished = talk.done(Finish(), Finished)
    assert peaks == [100, 300, 200]
    assert finished.memory.process_run_peak_bytes.value == 300
    assert finished.memory.weight_bytes.value == 11
    assert finished.memory.allocator_peak_bytes.reason == "the model runs on the CPU"
    assert finished.swap_bytes.value == 9
    assert finished.foreign_gpu_processes.reason == "the model runs on the CPU"
    assert finished.throttled_share.value == pytest.approx(1 / 3), "the count rose in one of three turns"


def test_a_system_that_does_not_tell_of_throttling_leaves_it_unknown(
    session: Session, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contention, "cpu_throttle_count", lambda: missing("not told"))
    talk.done(load(), Loaded)
    monkeypatch.setattr(contention, "cpu_throttle_count", lambda: known(5))
    talk.done(TURN, TurnTaken)
    assert talk.done(Finish(), Finished).throttled_share.reason == "not told"


def test_waiting_for_a_message_is_what_counts_as_idle(session: Session, talk: Talk) -> None:
    talk.done(load(), Loaded)
    for _ in range(3):
        threading.Event().wait(0.1)
        talk.done(TURN, TurnTaken)
    share = talk.done(Finish(), Finished).idle_cpu_share.value
    assert share is not None
    # Only this thread's waits are counted as wall time; the whole process's CPU time is, so other threads show.
    assert 0 <= share < 1


def test_without_a_turn_there_is_nothing_to_tell(session: Session, talk: Talk) -> None:
    talk.done(load(), Loaded)
    finished = talk.done(Finish(), Finished)
    assert finished.swap_bytes.reason == "no turn was taken"
    assert finished.throttled_share.reason == "no turn was taken"


def test_cache_and_limits_are_measured_on_request(
    session: Session, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = DeviceLimits(bytes_per_s={"copy": 5.0}, array_bytes=8, flops_per_s=missing("x"))
    asked: list[tuple[str, str]] = []

    def probe(on: str, dtype: str) -> DeviceLimits:
        asked.append((on, dtype))
        return found

    monkeypatch.setattr(limits, "measure", probe)
    talk.done(load(), Loaded)
    assert talk.done(MeasureCache(prompt=[1, 2, 3]), CacheMeasured).cache.measured_tokens == 3
    assert talk.done(MeasureLimits(), LimitsMeasured).limits == found
    assert asked == [("cpu", "float32")]


def as_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "resolve", lambda wanted: "cuda")
    monkeypatch.setattr(device, "reset_peak", lambda on: True)
    monkeypatch.setattr(device, "allocator_peak_bytes", lambda on: known(50))
    monkeypatch.setattr(device, "allocator_reserved_peak_bytes", lambda on: known(70))
    monkeypatch.setattr(device, "nvml_process_bytes", lambda on: known(90))
    monkeypatch.setattr(contention, "foreign_gpu_processes", lambda on, pids: known(0))
    monkeypatch.setattr(contention, "throttled", lambda on: known(1.0))


def test_on_cuda_the_peak_is_what_the_allocator_reserved_and_company_is_asked_for_with_our_processes(
    session: Session, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours: list[Any] = []

    def foreign(on: str, pids: Any) -> Any:
        ours.append((on, list(pids)))
        return known(1)

    as_on_cuda(monkeypatch)
    monkeypatch.setattr(contention, "foreign_gpu_processes", foreign)
    talk.done(load(), Loaded)
    assert talk.done(TURN, TurnTaken).peak_bytes.value == 70
    finished = talk.done(Finish(), Finished)
    memory = finished.memory
    assert (memory.allocator_peak_bytes.value, memory.allocator_reserved_peak_bytes.value) == (50, 70)
    assert memory.nvml_process_bytes.value == 90
    assert not memory.peaks_by_driver
    assert finished.foreign_gpu_processes.value == 1
    assert finished.throttled_share.value == 1
    assert ours == [("cuda", [5, 6])]


def test_on_cuda_the_peak_of_an_engine_without_torchs_allocator_is_the_drivers(
    session: Session, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_cuda(monkeypatch)
    monkeypatch.setattr(engine, "TORCH_ALLOCATOR", False)
    sizes = iter([90, 95, 80])
    monkeypatch.setattr(device, "nvml_process_bytes", lambda on: known(next(sizes)))
    talk.done(load(), Loaded)
    assert [talk.done(TURN, TurnTaken).peak_bytes.value for _ in range(3)] == [90, 95, 80]
    memory = talk.done(Finish(), Finished).memory
    assert memory.peaks_by_driver
    assert memory.nvml_process_bytes.value == 95
    for of_allocator in (memory.allocator_peak_bytes, memory.allocator_reserved_peak_bytes):
        assert of_allocator == missing("the engine takes its memory past torch's allocator")


def test_a_driver_that_does_not_tell_leaves_such_a_peak_unknown(
    session: Session, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_cuda(monkeypatch)
    monkeypatch.setattr(engine, "TORCH_ALLOCATOR", False)
    monkeypatch.setattr(device, "nvml_process_bytes", lambda on: missing("NVML does not list this process"))
    talk.done(load(), Loaded)
    assert talk.done(TURN, TurnTaken).peak_bytes == missing("NVML does not list this process")


def test_on_a_cpu_the_peak_is_the_resident_set_whatever_the_allocator(
    session: Session, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "TORCH_ALLOCATOR", False)
    talk.done(load(), Loaded)
    monkeypatch.setattr(process, "peak_bytes", lambda: known(100))
    assert talk.done(TURN, TurnTaken).peak_bytes.value == 100
    memory = talk.done(Finish(), Finished).memory
    assert not memory.peaks_by_driver
    assert memory.allocator_peak_bytes.reason == "the model runs on the CPU"


def test_weights_to_be_quantized_at_load_are_not_measured_by_an_engine_that_does_not(
    session: Session, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "QUANTIZES_AT_LOAD", False)
    monkeypatch.setattr(checkpoint, "read_manifest", lambda folder: SimpleNamespace(at_load="asked for"))
    refused = talk(load()).refused
    assert refused is not None
    assert refused.failure is FailureKind.ERROR
    assert refused.reason.startswith("NotQuantized: engine 'transformers' does not quantize weights")
