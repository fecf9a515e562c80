"""What the model holds in memory: weights, and the keys and values of past tokens."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import DynamicCache
from unit.engines.prompts import PROMPT

from pipeline.engines import EngineOptions
from pipeline.engines import transformers as engine
from pipeline.engines.transformers import TransformersSession


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


def test_a_decoded_token_reads_a_tied_embedding_as_its_output_head(session: TransformersSession) -> None:
    assert session.decode_weight_bytes() == session.weight_bytes()


def test_a_decoded_token_does_not_read_an_untied_embedding(lively: Path) -> None:
    session = engine.load(lively, EngineOptions("cpu", "float32", 2))
    tied = session.weight_bytes()
    head, embedding = session._model.lm_head, session._model.model.embed_tokens
    head.weight = torch.nn.Parameter(embedding.weight.data.clone())
    assert session.weight_bytes() == tied + embedding.weight.nbytes
    assert session.decode_weight_bytes() == tied


@pytest.mark.parametrize("tokens", [1, 12, 100])
@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2)])
def test_the_cache_measured_is_the_one_of_the_formula(lively: Path, dtype: str, size: int, tokens: int) -> None:
    cache = engine.load(lively, EngineOptions("cpu", dtype, 2)).kv_cache([9] * tokens)
    assert (cache.layers, cache.kv_heads, cache.head_dim, cache.bytes_per_element) == (2, 2, 32, size)
    assert cache.measured_tokens == tokens
    # Keys and values, 2 layers, 2 key-value heads of 128 / 4 = 32.
    assert cache.measured_bytes == 2 * 2 * 2 * 32 * size * tokens


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_the_cache_is_found_under_the_name_of_either_generation_of_transformers(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with torch.inference_mode():
        made = session._model(input_ids=torch.tensor([PROMPT]), use_cache=True)
    cache = made.get("cache", made.get("past_key_values"))
    expected = session.kv_cache(PROMPT)
    monkeypatch.setattr(session._model, "forward", lambda **_: {name: cache})
    assert session.kv_cache(PROMPT) == expected


def test_a_model_that_keeps_no_keys_and_values_is_refused(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = torch.zeros(1, 2, 12, 32)
    for cache in (
        None,
        SimpleNamespace(layers=[]),
        SimpleNamespace(layers=[SimpleNamespace(keys=keys, values=keys), SimpleNamespace(conv_states={})]),
        SimpleNamespace(layers=[SimpleNamespace(keys=keys, values=None)]),
    ):
        monkeypatch.setattr(session._model, "forward", lambda cache=cache, **_: {"cache": cache})
        with pytest.raises(RuntimeError, match="does not hold keys and values"):
            session.kv_cache(PROMPT)


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        ({"num_key_value_heads": 2, "head_dim": 64}, (6, 2, 64)),
        ({"num_key_value_heads": 2}, (6, 2, 100)),
        ({"head_dim": 64}, (6, 8, 64)),
        ({"num_key_value_heads": None, "head_dim": None}, (6, 8, 100)),
    ],
)
def test_the_shape_is_read_from_the_config_with_its_defaults(
    config: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    common = {"num_hidden_layers": 6, "num_attention_heads": 8, "hidden_size": 800}
    found = engine._cache_shape(SimpleNamespace(**common, **config))
    assert (found["layers"], found["kv_heads"], found["head_dim"]) == shape


def test_a_config_that_does_not_tell_the_shape_is_refused() -> None:
    with pytest.raises(RuntimeError, match="num_hidden_layers"):
        engine._cache_shape(SimpleNamespace(num_attention_heads=8))


def test_a_model_of_more_than_text_has_the_cache_of_its_text_part(
    session: TransformersSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SimpleNamespace(num_hidden_layers=1, num_attention_heads=8, hidden_size=800)
    monkeypatch.setattr(session._model, "config", SimpleNamespace(get_text_config=lambda *, decoder: text))
    cache = DynamicCache()
    cache.update(torch.zeros(1, 8, 3, 100), torch.zeros(1, 8, 3, 100), 0)
    monkeypatch.setattr(session._model, "forward", lambda **_: {"cache": cache})
    found = session.kv_cache(PROMPT)
    assert (found.layers, found.kv_heads, found.head_dim) == (1, 8, 100)
    assert (found.measured_tokens, found.measured_bytes) == (3, 2 * 8 * 3 * 100 * 4)
