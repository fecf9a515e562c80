"""Likelihoods of choices, against a computation in float64 that reads each choice behind its prompt from the start."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from unit.engines import spy

from pipeline.engines import EngineOptions, Question, _transformers_decoding
from pipeline.engines import transformers as engine
from pipeline.engines.transformers import TransformersSession

SHARED = list(range(150, 161))
QUESTIONS = [
    Question([*SHARED, 20, 21, 22, 23, 24], [[30], [31, 32, 33], [34, 35]]),
    Question([*SHARED, 2, 40, 2], [[50, 51, 2], [2]]),
    Question([*SHARED, 60], [[70, 71], [70, 72], [70, 71, 73, 74, 75, 76], [80]]),
    Question(SHARED + list(range(90, 107)), [[110, 111]]),
]
ONE_TOKEN = [Question(question.prompt, [choice[:1] for choice in question.choices]) for question in QUESTIONS]


def in_float64(session: TransformersSession, questions: list[Question]) -> list[list[float]]:
    model = copy.deepcopy(session._model).double()

    def logprob(prompt: list[int], choice: list[int]) -> float:
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([prompt + choice]), use_cache=False).logits[0]
        following = logits[len(prompt) - 1 : -1].log_softmax(-1)
        return float(following[torch.arange(len(choice)), torch.tensor(choice)].sum())

    return [[logprob(question.prompt, choice) for choice in question.choices] for question in questions]


def close(found: list[list[float]], expected: list[list[float]]) -> bool:
    assert [len(row) for row in found] == [len(row) for row in expected]
    flat = [pair for rows in zip(found, expected, strict=True) for pair in zip(*rows, strict=True)]
    return all(value == pytest.approx(wanted, abs=2e-4) for value, wanted in flat)


@pytest.mark.parametrize("questions", [QUESTIONS, ONE_TOKEN], ids=["several tokens", "one token"])
def test_logprobs_are_those_of_float64(any_session: TransformersSession, questions: list[Question]) -> None:
    expected = in_float64(any_session, questions)
    assert len({round(value, 2) for row in expected for value in row}) > 5
    for shared in ([], SHARED[:4], SHARED):
        assert close(any_session.choice_logprobs(questions, shared), expected)
    alone = [any_session.choice_logprobs([question], SHARED)[0] for question in questions]
    assert close(alone, expected)


@pytest.mark.parametrize("tokens", [1, 12, 30, 1000])
def test_how_the_questions_are_packed_changes_nothing(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch, tokens: int
) -> None:
    monkeypatch.setitem(_transformers_decoding.PACK_TOKENS, "cpu", tokens)
    expected = in_float64(session, QUESTIONS)
    assert close(session.choice_logprobs(QUESTIONS, SHARED), expected)
    assert close(session.choice_logprobs(QUESTIONS), expected)


def test_attention_that_adds_its_mask_gives_the_same(session: TransformersSession, lively: Path) -> None:
    eager = engine.load(lively, EngineOptions("cpu", "float32", 2))
    eager._model.set_attn_implementation("eager")
    assert close(eager.choice_logprobs(QUESTIONS, SHARED), in_float64(session, QUESTIONS))


def test_logprobs_are_computed_in_float32_whatever_the_dtype_of_the_model(lively: Path) -> None:
    session = engine.load(lively, EngineOptions("cpu", "bfloat16", 2))
    [question, *_] = ONE_TOKEN
    expected = torch.from_numpy(session.next_token_logits(question.prompt))[-1].log_softmax(-1)
    [found] = session.choice_logprobs([question])
    assert found == pytest.approx([float(expected[choice[0]]) for choice in question.choices], abs=1e-4)


def test_each_token_is_read_once_and_only_the_logits_needed_are_computed(session: TransformersSession) -> None:
    session.choice_logprobs(QUESTIONS, SHARED)
    with spy.passes(session) as seen:
        session.choice_logprobs(QUESTIONS, SHARED)
    [call] = seen
    prompts = sum(len(question.prompt) - len(SHARED) for question in QUESTIONS)
    choices = sum(len(choice) - 1 for question in QUESTIONS for choice in question.choices)
    assert (len(call.ids), len(call.ids[0])) == (1, prompts + choices)
    assert call.logits[:2] == (1, len(QUESTIONS) + choices)


def test_choices_of_one_token_need_no_second_pass_where_prompts_are_padded(others: dict[str, Path]) -> None:
    session = engine.load(others["windowed"], EngineOptions("cpu", "float32", 2))
    with spy.passes(session) as seen:
        session.choice_logprobs(ONE_TOKEN)
    assert [call.logits[:2] for call in seen] == [(4, 1)]


def test_answers_and_choices_leave_the_shared_tokens_as_they_are(session: TransformersSession) -> None:
    first = session.choice_logprobs(QUESTIONS, SHARED)
    session.generate([question.prompt for question in QUESTIONS], 4, SHARED)
    with spy.passes(session) as seen:
        assert session.choice_logprobs(QUESTIONS, SHARED) == first
    assert len(seen) == 1


def test_what_is_wrong_with_questions_is_told_at_once(session: TransformersSession) -> None:
    questions = [
        QUESTIONS[0],
        Question([1, 2], [[3]]),
        Question(SHARED, [[3]]),
        Question([*SHARED, 5], []),
        Question([*SHARED, 5], [[3], []]),
    ]
    with pytest.raises(ValueError, match="shared") as raised:
        session.choice_logprobs(questions, SHARED)
    assert str(raised.value).split("; ") == [
        "prompt 1 does not begin with the 11 shared tokens",
        "prompt 2 has no token after the 11 shared ones",
        "prompt 3 has no choices",
        "prompt 4 has a choice without tokens",
    ]


def test_no_questions_have_no_logprobs(session: TransformersSession) -> None:
    assert session.choice_logprobs([]) == []
