"""Timed answers of the transformers engine: static batches, and what the clocks are read at."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
import torch
from unit.engines.prompts import PROMPT, Load

from pipeline.engines import transformers as engine
from pipeline.engines.transformers import TransformersSession
from pipeline.probes import device as device_probe
from pipeline.readings import RequestReading

BATCH = [list(range(first, first + 12)) for first in (40, 90, 7, 200)]


def answered(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch, prompts: list[list[int]], tokens: int
) -> tuple[RequestReading, list[list[int]]]:
    """The reading of an answer, and the token ids of its rows."""
    rows: list[list[int]] = []
    generate = session._model.generate

    def spy(inputs: torch.Tensor, **options: Any) -> torch.Tensor:
        output: torch.Tensor = generate(inputs, **options)
        rows.extend(output[:, inputs.shape[1] :].tolist())
        return output

    with monkeypatch.context() as patch:
        patch.setattr(session._model, "generate", spy)
        return session.answer(prompts, tokens), rows


@pytest.mark.parametrize("streams", [1, 2, 4])
@pytest.mark.parametrize("tokens", [1, 2, 9])
def test_one_rising_time_for_each_token_of_all_streams(session: TransformersSession, streams: int, tokens: int) -> None:
    reading = session.answer(BATCH[:streams], tokens)
    assert len(reading.token_s) == tokens
    assert reading.token_s[0] > 0
    assert all(earlier < later for earlier, later in itertools.pairwise(reading.token_s))
    assert reading.prefill_s is None


def test_each_row_of_a_batch_is_what_its_prompt_gives_alone(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, together = answered(session, monkeypatch, BATCH, 8)
    alone = [answered(session, monkeypatch, [prompt], 8)[1][0] for prompt in BATCH]
    assert together == alone
    assert together == [answer.token_ids for answer in session.generate(BATCH, 8)]
    assert len({tuple(row) for row in together}) == len(BATCH)


def test_every_row_has_all_tokens_even_when_the_model_would_stop(
    load: Load, session: TransformersSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [answer.token_ids for answer in session.generate(BATCH, 8)]
    stopping = load(eos_token_id=[whole[0][2], whole[1][0], whole[2][7]])
    reading, rows = answered(stopping, monkeypatch, BATCH, 8)
    assert rows == whole
    assert len(reading.token_s) == 8


def test_the_streams_of_a_batch_step_together(session: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """`generate` hands over one token of every row at each step, on the host."""
    seen: list[torch.Tensor] = []
    put = engine._TokenClock.put
    monkeypatch.setattr(engine._TokenClock, "put", lambda clock, value: (seen.append(value), put(clock, value))[1])
    session.answer(BATCH, 5)
    assert [tuple(value.shape) for value in seen] == [(4, 12), *[(4,)] * 5]
    assert {value.device.type for value in seen} == {"cpu"}


def test_a_tokens_time_lies_between_its_own_pass_and_the_next(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    passes: list[tuple[int, int]] = []
    begun: list[int] = []
    handles = [
        session._model.register_forward_pre_hook(lambda *_: begun.append(next(ticks))),
        session._model.register_forward_hook(lambda *_: passes.append((begun[-1], next(ticks)))),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: float(next(ticks)))
        reading = session.answer(BATCH[:2], 4)
    for handle in handles:
        handle.remove()
    # Tick 0 is the request's start. Each step: its pass begins, its pass ends, its tokens are there.
    assert passes == [(1, 2), (4, 5), (7, 8), (10, 11)]
    assert reading.token_s == [3, 6, 9, 12]


@pytest.mark.parametrize("prompts", [[[5, 6], [7]], [[1, 2, 3], [4, 5, 6], [7, 8]], []])
def test_prompts_of_different_lengths_are_refused(session: TransformersSession, prompts: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="equally long"):
        session.answer(prompts, 3)
    with pytest.raises(ValueError, match="equally long"):
        session.prefill(prompts)


def test_answers_do_not_share_their_clock(session: TransformersSession) -> None:
    first, second = session.answer([PROMPT], 3), session.answer([PROMPT], 3)
    assert len(first.token_s) == len(second.token_s) == 3
    assert second.token_s is not first.token_s


def test_cpu_time_rises_from_the_start_to_the_first_and_the_last_token(session: TransformersSession) -> None:
    reading = session.answer(BATCH, 12)
    assert reading.cpu_s is not None
    first, last = reading.cpu_s
    assert 0 < first < last
    assert reading.device_s is None


def test_cpu_time_is_that_of_the_process_counted_from_the_start(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([100.0, 103.0, 110.0])
    monkeypatch.setattr(time, "process_time", lambda: next(times))
    assert session.answer(BATCH, 6).cpu_s == (3.0, 10.0)
    assert list(times) == []  # read three times, not once a token


def test_one_token_is_the_first_and_the_last(session: TransformersSession, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 103.0])
    monkeypatch.setattr(time, "process_time", lambda: next(times))
    assert session.answer([PROMPT], 1).cpu_s == (3.0, 3.0)


def test_prefill_is_timed_from_before_the_pass_to_after_it(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []

    def read() -> float:
        log.append("read")
        return {2: 10.0, 5: 17.0}[len(log)]

    handle = session._model.register_forward_hook(lambda *_: log.append("pass"))
    with monkeypatch.context() as patch:
        patch.setattr(device_probe, "synchronise", lambda device: log.append(f"wait {device}"))
        patch.setattr(time, "perf_counter", read)
        seconds = session.prefill(BATCH)
    handle.remove()
    assert log == ["wait cpu", "read", "pass", "wait cpu", "read"]
    assert seconds == 7.0


def test_prefill_is_one_pass_over_the_whole_prompts(session: TransformersSession) -> None:
    seen = []
    handle = session._model.register_forward_hook(
        lambda _module, _args, kwargs, _out: seen.append(kwargs), with_kwargs=True
    )
    try:
        session.prefill(BATCH)
    finally:
        handle.remove()
    [call] = seen
    assert call["input_ids"].tolist() == BATCH


class FakeEvent:
    """A mark that the device passes at a time in ms."""

    def __init__(self, log: list[str], at_ms: float) -> None:
        self._log = log
        self._at_ms = at_ms

    def synchronize(self) -> None:
        self._log.append(f"reached {self._at_ms}")

    def elapsed_time(self, end: FakeEvent) -> float:
        return end._at_ms - self._at_ms


def on_cuda(monkeypatch: pytest.MonkeyPatch, tokens: int, pinned: int) -> tuple[list[str], RequestReading]:
    """What a clock on a GPU does for `tokens` tokens where `pinned` were expected: its log, and its reading."""
    log: list[str] = []
    stamps = iter([50.0, 90.0, 1050.0])

    def read() -> float:
        log.append("read")
        return float(len(log))

    def mark(device: str) -> FakeEvent:
        log.append(f"mark {device}")
        return FakeEvent(log, next(stamps))

    with monkeypatch.context() as patch:
        patch.setattr(device_probe, "synchronise", lambda device: log.append(f"wait {device}"))
        patch.setattr(device_probe, "mark", mark)
        patch.setattr(time, "perf_counter", read)
        clock = engine._TokenClock("cuda", pinned)
        clock.start()
        clock.put("prompt")
        for _ in range(tokens):
            clock.put("token")
        clock.end()
    return log, clock.reading()


def test_on_cuda_the_device_is_waited_for_before_each_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    log, reading = on_cuda(monkeypatch, tokens=3, pinned=3)
    token = ["wait cuda", "read"]
    assert log[:10] == ["mark cuda", "read", *token, "mark cuda", *token, *token, "mark cuda"]
    assert reading.token_s == [2.0, 5.0, 7.0]


def test_device_time_is_that_between_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    log, reading = on_cuda(monkeypatch, tokens=3, pinned=3)
    assert reading.device_s == (0.04, 1.0)
    assert log[10:] == ["reached 90.0", "reached 1050.0"]


def test_an_answer_of_the_wrong_length_keeps_its_times_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller sees the length and refuses the reading; what lies between other tokens is not asked for."""
    _, reading = on_cuda(monkeypatch, tokens=2, pinned=3)
    assert len(reading.token_s) == 2
    assert reading.cpu_s is None
    assert reading.device_s is None
