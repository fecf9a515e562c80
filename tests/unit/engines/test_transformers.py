"""Loading with the transformers engine, what it says of itself, and what of a checkpoint does not bend its answers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from unit.engines.prompts import PROMPT, Load

from pipeline.engines import EngineOptions
from pipeline.engines import transformers as engine
from pipeline.engines.transformers import TransformersSession
from pipeline.quality_records import FinishReason
from pipeline.tokenizer import Tokenizer


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
    assert len(endless.answer([PROMPT], 5).token_s) == 5


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
