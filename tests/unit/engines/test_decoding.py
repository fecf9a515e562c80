"""Answers to eval items are those of the model's own `generate`; ended rows go, the shared beginning is read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from unit.engines import spy
from unit.engines.prompts import PROMPT, Load

from pipeline.engines import Completion, EngineOptions, _transformers_decoding
from pipeline.engines import transformers as engine
from pipeline.engines.transformers import TransformersSession
from pipeline.quality_records import FinishReason

PROMPTS = [list(range(10, 10 + length)) for length in (1, 9, 4, 17)]
SHARED = list(range(200, 211))
CONTINUED = [SHARED + prompt for prompt in PROMPTS]


def by_plain_passes(session: TransformersSession, prompt: list[int], count: int) -> list[int]:
    """The first tokens of greedy decoding by forward passes over the whole text: no cache, no batch, no `generate`."""
    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            logits = session._model(input_ids=torch.tensor([ids])).logits
            ids.append(int(logits[0, -1].argmax()))
    return ids[len(prompt) :]


def by_generate(
    session: TransformersSession, prompts: list[list[int]], limit: int, ends: list[int] | None
) -> list[Completion]:
    """What transformers' `generate` gives for a batch that is padded on the left."""
    width = max(map(len, prompts))
    ids = torch.tensor([[2] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    output = session._model.generate(
        ids, attention_mask=mask, max_new_tokens=limit, do_sample=False, eos_token_id=ends, pad_token_id=2
    )
    found = []
    for row in output[:, width:].tolist():
        end = next((place for place, token in enumerate(row) if token in (ends or [])), None)
        found.append(Completion(row[:end], FinishReason.LENGTH if end is None else FinishReason.STOP))
    return found


def test_answers_are_the_argmax_of_each_step(session: TransformersSession) -> None:
    [answer] = session.generate([PROMPT], 6)
    assert answer.token_ids == by_plain_passes(session, PROMPT, 6)
    assert answer.finish_reason is FinishReason.LENGTH


def test_answers_are_those_of_generate_whether_they_end_or_not(any_checkpoint: Path, load: Load) -> None:
    endless = load(any_checkpoint, eos_token_id=None)
    whole = [answer.token_ids for answer in endless.generate(PROMPTS, 12)]
    assert endless.generate(PROMPTS, 12) == by_generate(endless, PROMPTS, 12, None)
    ends = sorted({whole[0][3], whole[1][7]})
    ending = load(any_checkpoint, eos_token_id=ends)
    answers = ending.generate(PROMPTS, 12)
    assert answers == by_generate(ending, PROMPTS, 12, ends)
    assert FinishReason.STOP in {answer.finish_reason for answer in answers}
    assert len({len(answer.token_ids) for answer in answers}) > 1


def test_a_batch_of_different_lengths_gives_what_each_prompt_gives_alone(any_session: TransformersSession) -> None:
    together = any_session.generate(PROMPTS, 8)
    alone = [any_session.generate([prompt], 8)[0] for prompt in PROMPTS]
    assert together == alone
    assert len({token for answer in together for token in answer.token_ids}) > 5  # no model that repeats itself


@pytest.mark.parametrize("tokens", [1, 10, 20, 1000])
def test_how_the_prompts_are_packed_changes_nothing(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch, tokens: int
) -> None:
    expected = [by_plain_passes(session, prompt, 5) for prompt in CONTINUED]
    monkeypatch.setitem(_transformers_decoding.PACK_TOKENS, "cpu", tokens)
    assert [answer.token_ids for answer in session.generate(CONTINUED, 5)] == expected
    assert [answer.token_ids for answer in session.generate(CONTINUED, 5, SHARED)] == expected


def test_a_prompt_that_holds_the_padding_token_is_not_masked(any_session: TransformersSession) -> None:
    """Chat prompts end their turns with <|im_end|>, which also pads."""
    prompts = [[2, 60, 61, 2, 62, 2], [63, 64, 65, 66, 67, 68, 69, 70]]
    expected = [by_plain_passes(any_session, prompt, 5) for prompt in prompts]
    assert [answer.token_ids for answer in any_session.generate(prompts, 5)] == expected


@pytest.mark.parametrize("place", [0, 3, 7])
def test_an_answer_stops_at_the_end_token_which_is_not_part_of_it(
    load: Load, session: TransformersSession, place: int
) -> None:
    [whole] = session.generate([PROMPT], 8)
    assert whole.token_ids.index(whole.token_ids[place]) == place
    stopping = load(eos_token_id=whole.token_ids[place])
    [answer] = stopping.generate([PROMPT], 8)
    assert answer.token_ids == whole.token_ids[:place]
    assert answer.finish_reason is FinishReason.STOP


def test_in_a_batch_each_answer_stops_by_itself(load: Load, session: TransformersSession) -> None:
    whole = [answer.token_ids for answer in session.generate(PROMPTS, 8)]
    ends = {whole[0][2], whole[1][5]}
    expected = [next((place for place, token in enumerate(ids) if token in ends), None) for ids in whole]
    assert None in expected  # at least one answer runs to its limit
    stopping = load(eos_token_id=sorted(ends))
    for answer, ids, end in zip(stopping.generate(PROMPTS, 8), whole, expected, strict=True):
        assert answer.token_ids == ids[:end]
        assert answer.finish_reason is (FinishReason.LENGTH if end is None else FinishReason.STOP)


def test_rows_that_have_ended_are_read_no_more(any_checkpoint: Path, load: Load) -> None:
    whole = [answer.token_ids for answer in load(any_checkpoint, eos_token_id=None).generate(PROMPTS, 8)]
    ends = {whole[0][2], whole[1][5]}
    lengths = [next((place for place, token in enumerate(ids) if token in ends), 8) for ids in whole]
    stopping = load(any_checkpoint, eos_token_id=sorted(ends))
    with spy.passes(stopping) as seen:
        stopping.generate(PROMPTS, 8)
    # One token of each row that has not ended, after each of its tokens but the last one allowed.
    steps = [len(call.ids) for call in seen if len(call.ids[0]) == 1]
    assert steps == [going for step in range(1, 8) if (going := sum(length >= step for length in lengths))]


def test_each_step_asks_for_the_logits_of_one_place_a_row(session: TransformersSession) -> None:
    with spy.passes(session) as seen:
        session.generate(PROMPTS, 3)
    vocabulary = session._model.config.vocab_size
    assert [call.logits for call in seen] == [(1, 4, vocabulary), (4, 1, vocabulary), (4, 1, vocabulary)]


def test_equally_long_prompts_need_no_mask_in_decoding(session: TransformersSession) -> None:
    """Without one, attention takes its fast path."""
    with spy.passes(session) as seen:
        session.generate([PROMPT, PROMPT[::-1]], 3)
    assert [call.mask is None for call in seen] == [False, True, True]
    with spy.passes(session) as seen:
        session.generate([PROMPT], 3)
    assert [call.mask is None for call in seen] == [True, True, True]


def test_a_shared_beginning_gives_the_same_answers(any_session: TransformersSession) -> None:
    expected = [by_plain_passes(any_session, prompt, 6) for prompt in CONTINUED]
    for shared in (SHARED, SHARED[:3], [], SHARED):
        assert [answer.token_ids for answer in any_session.generate(CONTINUED, 6, shared)] == expected


def test_a_shared_beginning_is_read_once_and_kept_for_the_next_call(session: TransformersSession) -> None:
    other = [7, 8, 9, *SHARED]
    session.generate([[*other, 5]], 1, other)
    with spy.passes(session) as seen:
        first = session.generate(CONTINUED[:2], 4, SHARED)
        again = session.generate(CONTINUED[:2], 4, tuple(SHARED))
        session.generate([[*other, 5]], 4, other)
        back = session.generate(CONTINUED[:2], 4, SHARED)
    assert first == again == back
    read = [call.ids for call in seen if len(call.ids[0]) > 1 or call.ids == [[5]]]
    rests = [PROMPTS[0] + PROMPTS[1]]
    assert read == [[SHARED], rests, rests, [other], [[5]], [SHARED], rests]


def test_a_window_or_a_state_is_not_shared(others: dict[str, Path]) -> None:
    """It would take in the padding between the shared tokens and the rest."""
    for folder in others.values():
        session = engine.load(folder, EngineOptions("cpu", "float32", 2))
        with spy.passes(session) as seen:
            session.generate(CONTINUED, 1, SHARED)
        assert [len(call.ids) for call in seen] == [4]
        assert seen[0].ids[3] == CONTINUED[3]


def test_prompts_that_do_not_continue_the_shared_tokens_are_all_named(session: TransformersSession) -> None:
    prompts = [CONTINUED[0], [1, *SHARED], SHARED[:4], SHARED]
    with pytest.raises(ValueError, match="shared") as raised:
        session.generate(prompts, 4, SHARED)
    assert str(raised.value).split("; ") == [
        "prompt 1 does not begin with the 11 shared tokens",
        "prompt 2 does not begin with the 11 shared tokens",
        "prompt 3 has no token after the 11 shared ones",
    ]
    with pytest.raises(ValueError, match="prompt 0 has no token"):
        session.generate([[]], 4)


def test_no_prompts_have_no_answers(session: TransformersSession) -> None:
    assert session.generate([], 4) == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_next_token_logits_are_those_of_the_model_in_float32(lively: Path, dtype: str) -> None:
    session = engine.load(lively, EngineOptions("cpu", dtype, 2))
    logits: Any = session.next_token_logits(tuple(PROMPT))
    with torch.inference_mode():
        expected = session._model(input_ids=torch.tensor([PROMPT])).logits[0].float().numpy()
    assert logits.dtype == "float32"
    assert logits.shape == (len(PROMPT), session._model.config.vocab_size)
    assert (logits == expected).all()
