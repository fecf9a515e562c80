from __future__ import annotations

from typing import Any, cast

import numpy
import pytest
from unit.runs.artifacts import DOWN
from unit.runs.jobs import reference_job

from pipeline import records, smoke_reading, store
from pipeline.engines import transformers as engine
from pipeline.runs import reference
from pipeline.smoke_records import SmokeTexts

pytestmark = pytest.mark.usefixtures("artifact")


def test_the_base_is_read_at_the_last_tokens_of_each_text() -> None:
    texts = records.load(store.SMOKE_TEXTS, SmokeTexts)
    assert [len(window) for window in texts.windows] == [20] * 4
    logits = numpy.load(store.REFERENCE_LOGITS)
    assert logits.shape == (4 * smoke_reading.SCORED, 512)
    assert logits.dtype == numpy.float32
    assert smoke_reading.scored_tokens(list(range(20))) == list(range(12, 20))


def test_a_base_whose_logits_are_no_numbers_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, window: list[int]) -> Any:
        return numpy.full((len(window), 512), numpy.nan, numpy.float32)

    monkeypatch.setattr(engine.TransformersSession, "next_token_logits", broken)
    found = reference.run(reference_job())
    assert found.reason == "its logits are not finite numbers"
    assert found.answers == []


def test_a_misplaced_base_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.TransformersSession, "misplaced", lambda self: [DOWN])
    assert reference.run(reference_job()).reason == f"1 parameters are not on cpu: {DOWN}"


def test_each_scored_token_meets_the_logits_after_the_token_before_it() -> None:
    class Session:
        def next_token_logits(self, window: list[int]) -> Any:
            """After each token, its own place."""
            return numpy.arange(len(window))[:, None]

    window = list(range(100, 120))
    [logits] = smoke_reading.scored_logits(cast(Any, Session()), [window])
    assert logits[:, 0].tolist() == list(range(11, 19))
    assert smoke_reading.scored_tokens(window) == list(range(112, 120))
    [short] = smoke_reading.scored_logits(cast(Any, Session()), [[5, 6, 7]])
    assert (short[:, 0].tolist(), smoke_reading.scored_tokens([5, 6, 7])) == ([0, 1], [6, 7])
