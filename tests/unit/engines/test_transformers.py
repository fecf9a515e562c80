"""The transformers engine on the tiny Llama: CPU, float32, so that equal work gives equal tokens."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.engines import EngineOptions
from pipeline.engines import transformers as engine
from pipeline.engines.transformers import TransformersSession
from pipeline.probes import device as device_probe
from pipeline.records import FinishReason
from pipeline.tokenizer import Tokenizer

PROMPT = list(range(40, 52))
PROMPTS = [list(range(10, 10 + length)) for length in (1, 9, 4, 17)]
Load = Callable[..., TransformersSession]


@pytest.fixture(scope="module")
def lively(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with eightfold weights: fresh ones hardly look back and repeat the prompt's last token."""
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path_factory.mktemp("lively") / "model"))
    tensors = load_file(folder / "model.safetensors")
    louder = {name: tensor * 8 if "_proj" in name else tensor for name, tensor in tensors.items()}
    save_file(louder, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def session(lively: Path) -> TransformersSession:
    return engine.load(lively, EngineOptions("cpu", "float32", 2))


@pytest.fixture
def load(tmp_path: Path, lively: Path) -> Load:
    """Load a copy of a model, by default the lively one, with some keys of its generation config replaced."""

    def loaded(model: Path = lively, **generation: Any) -> TransformersSession:
        folder = Path(shutil.copytree(model, tmp_path / "copy", dirs_exist_ok=True))
        path = folder / "generation_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | generation))
        return engine.load(folder, EngineOptions("cpu", "float32", 2))

    return loaded


def first_tokens(session: TransformersSession, count: int) -> list[int]:
    """The first tokens of greedy decoding by plain forward passes over the whole text: no cache, no `generate`."""
    ids = list(PROMPT)
    with torch.inference_mode():
        for _ in range(count):
            logits = session._model(input_ids=torch.tensor([ids])).logits
            ids.append(int(logits[0, -1].argmax()))
    return ids[len(PROMPT) :]


def test_answers_are_the_argmax_of_each_step(session: TransformersSession) -> None:
    [answer] = session.generate([PROMPT], 6)
    assert answer.token_ids == first_tokens(session, 6)
    assert answer.finish_reason is FinishReason.LENGTH


def test_a_batch_of_different_lengths_gives_what_each_prompt_gives_alone(session: TransformersSession) -> None:
    together = session.generate(PROMPTS, 8)
    alone = [session.generate([prompt], 8)[0] for prompt in PROMPTS]
    assert together == alone
    assert len({token for answer in together for token in answer.token_ids}) > 10  # no model that repeats itself


def test_prompts_are_padded_on_the_left_and_masked(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def generate(inputs: torch.Tensor, *, attention_mask: torch.Tensor, generation_config: Any) -> torch.Tensor:
        seen.update(inputs=inputs.tolist(), mask=attention_mask.tolist(), config=generation_config)
        return torch.cat([inputs, torch.full((len(inputs), 1), 7)], dim=1)

    monkeypatch.setattr(session._model, "generate", generate)
    answers = session.generate([[5, 6, 7], [8]], 1)
    assert seen["inputs"] == [[5, 6, 7], [2, 2, 8]]
    assert seen["mask"] == [[1, 1, 1], [0, 0, 1]]
    assert (seen["config"].do_sample, seen["config"].num_beams, seen["config"].max_new_tokens) == (False, 1, 1)
    assert [answer.token_ids for answer in answers] == [[7], [7]]


def test_a_prompt_that_holds_the_padding_token_is_not_masked(session: TransformersSession) -> None:
    """Chat prompts end their turns with <|im_end|>, which also pads."""
    prompts = [[2, 60, 61, 2, 62, 2], [63, 64, 65, 66, 67, 68, 69, 70]]
    assert session.generate(prompts, 5) == [session.generate([prompt], 5)[0] for prompt in prompts]


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


def test_the_end_token_as_last_allowed_token_is_a_stop(session: TransformersSession) -> None:
    assert session._completion([7, 8, 2]).finish_reason is FinishReason.STOP
    assert session._completion([7, 8, 9]).finish_reason is FinishReason.LENGTH
    assert session._completion([7, 2, 2, 2]).token_ids == [7]


def test_a_stream_gives_one_rising_time_for_each_token(session: TransformersSession) -> None:
    for tokens in (2, 9):
        times = session.stream(PROMPT, tokens).token_s
        assert len(times) == tokens
        assert times[0] > 0
        assert all(earlier < later for earlier, later in itertools.pairwise(times))


def test_streams_do_not_share_their_clock(session: TransformersSession) -> None:
    first, second = session.stream(PROMPT, 3), session.stream(PROMPT, 3)
    assert len(first.token_s) == len(second.token_s) == 3
    assert second.token_s[0] < 5


def test_a_stream_gives_all_tokens_even_when_the_model_would_stop(load: Load, session: TransformersSession) -> None:
    [whole] = session.generate([PROMPT], 3)
    stopping = load(eos_token_id=whole.token_ids[2])
    assert len(stopping.stream(PROMPT, 8).token_s) == 8


@pytest.mark.parametrize(
    "own",
    [
        {"repetition_penalty": 3.0},
        {"no_repeat_ngram_size": 1},
        {"suppress_tokens": "first"},
        {"begin_suppress_tokens": "first"},
        {"bad_words_ids": "nested"},
        {"max_time": 1e-6},
    ],
    ids=lambda own: str(*own),
)
def test_the_checkpoints_own_generation_config_does_not_change_the_answer(
    load: Load, tiny_checkpoint: Path, own: dict[str, Any]
) -> None:
    [plain] = load(tiny_checkpoint).generate([PROMPT], 6)
    first = plain.token_ids[0]
    assert plain.token_ids == [first] * 6  # fresh weights repeat the prompt's last token, which each setting forbids
    tokens = {"first": [first], "nested": [[first]]}
    changed = load(tiny_checkpoint, **{key: tokens.get(str(value), value) for key, value in own.items()})
    assert changed.generate([PROMPT], 6) == [plain]


def test_sampling_in_the_checkpoints_generation_config_is_not_used(load: Load, session: TransformersSession) -> None:
    sampling = load(do_sample=True, temperature=5.0, top_k=3, top_p=0.5)
    assert [sampling.generate([PROMPT], 6) for _ in range(3)] == [session.generate([PROMPT], 6)] * 3


def test_a_model_without_end_token_answers_to_the_limit(load: Load, session: TransformersSession) -> None:
    endless = load(eos_token_id=None)
    [answer] = endless.generate([PROMPT], 5)
    assert answer.finish_reason is FinishReason.LENGTH
    assert answer.token_ids == session.generate([PROMPT], 5)[0].token_ids
    assert len(endless.stream(PROMPT, 5).token_s) == 5


def test_prefill_takes_time_and_longer_prompts_more(session: TransformersSession) -> None:
    short = min(session.prefill(PROMPT[:2]) for _ in range(5))
    long = min(session.prefill([7] * 500) for _ in range(3))
    assert 0 < short < long


def test_prefill_is_one_pass_over_the_whole_prompt(session: TransformersSession) -> None:
    seen = []
    handle = session._model.register_forward_hook(
        lambda _module, _args, kwargs, _out: seen.append(kwargs), with_kwargs=True
    )
    try:
        session.prefill(PROMPT)
    finally:
        handle.remove()
    [call] = seen
    assert call["input_ids"].tolist() == [PROMPT]


def test_weight_bytes_count_parameters_and_buffers_once(session: TransformersSession) -> None:
    hidden, inner, layers, vocabulary = 128, 256, 2, session._model.config.vocab_size
    per_layer = 2 * hidden * hidden + 2 * hidden * (hidden // 2) + 3 * hidden * inner + 2 * hidden
    parameters = vocabulary * hidden + layers * per_layer + hidden
    # The head is the embedding itself. Rotary frequencies are buffers of head_dim / 2 = 16 floats: one, or two apart.
    buffers = session.weight_bytes() - 4 * parameters
    assert buffers in (4 * 16, 2 * 4 * 16)
    assert session._model.lm_head.weight.data_ptr() == session._model.model.embed_tokens.weight.data_ptr()


def test_weight_bytes_count_memory_that_two_parameters_share_once(lively: Path) -> None:
    session = engine.load(lively, EngineOptions("cpu", "float32", 2))
    before = session.weight_bytes()
    head, embedding = session._model.lm_head, session._model.model.embed_tokens
    head.weight = torch.nn.Parameter(embedding.weight.data)
    assert head.weight is not embedding.weight
    assert session.weight_bytes() == before
    head.weight = torch.nn.Parameter(embedding.weight.data.clone())
    assert session.weight_bytes() == before + embedding.weight.nbytes


def test_weight_bytes_are_those_of_the_dtype_asked_for(lively: Path, session: TransformersSession) -> None:
    half = engine.load(lively, EngineOptions("cpu", "bfloat16", 2))
    assert half._model.dtype is torch.bfloat16
    assert session.weight_bytes() / 2 <= half.weight_bytes() < session.weight_bytes() / 2 + 256


def test_the_info_names_kernels_device_and_versions(session: TransformersSession) -> None:
    info = session.info()
    assert info.kernels == {"Linear": 14}  # q, k, v, o, gate, up, down in each of two layers; the head is none of them
    assert (info.name, info.device, info.device_name, info.compute_dtype) == ("transformers", "cpu", "CPU", "float32")
    assert info.threads == 2
    assert info.packages["torch"] == torch.__version__
    assert info.attention


def test_threads_are_those_asked_for(tiny_checkpoint: Path) -> None:
    try:
        assert engine.load(tiny_checkpoint, EngineOptions("cpu", "float32", 1)).info().threads == 1
    finally:
        torch.set_num_threads(2)


def test_every_parameter_and_buffer_elsewhere_is_named(lively: Path) -> None:
    session = engine.load(lively, EngineOptions("cpu", "float32", 2))
    assert session.misplaced() == []
    session._model.model.norm.to("meta")
    session._model.model.rotary_emb.inv_freq = torch.empty(16, device="meta")
    assert session.misplaced() == ["model.norm.weight", "model.rotary_emb.inv_freq"]


def test_a_model_that_is_wholly_on_another_device_has_all_names_listed(session: TransformersSession) -> None:
    elsewhere = TransformersSession(session._model, EngineOptions("cuda", "float16", 2))
    names = elsewhere.misplaced()
    assert {name for name, _ in session._model.named_parameters()} <= set(names)
    assert any(name.endswith("inv_freq") for name in names)


def test_a_checkpoint_of_pickled_weights_is_not_loaded(tmp_path: Path, tiny_checkpoint: Path) -> None:
    from safetensors.torch import load_file

    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "pickled"))
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(OSError, match="safetensors"):
        engine.load(folder, EngineOptions("cpu", "float32", 2))


def test_what_the_session_generates_is_text_to_the_tokenizer(
    session: TransformersSession, tiny_checkpoint: Path
) -> None:
    tokenizer = Tokenizer(tiny_checkpoint)
    [answer] = session.generate([tokenizer.chat([{"role": "user", "content": "Hi"}], add_generation_prompt=True)], 4)
    assert isinstance(tokenizer.decode(answer.token_ids), str)
    assert len(answer.token_ids) <= 4


def test_on_cuda_the_device_is_waited_for_before_each_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def read() -> float:
        events.append("read")
        return float(len(events))

    monkeypatch.setattr(device_probe, "synchronise", lambda device: events.append(f"wait {device}"))
    monkeypatch.setattr(time, "perf_counter", read)
    clock = engine._TokenClock("cuda")
    clock.start()
    clock.put("prompt")
    clock.put("token")
    clock.put("token")
    clock.end()
    monkeypatch.undo()
    assert events == ["read", "wait cuda", "read", "wait cuda", "read"]
    assert clock.token_s == [2.0, 4.0]
