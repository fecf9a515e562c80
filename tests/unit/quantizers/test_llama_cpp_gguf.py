from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pipeline import progress
from pipeline.checkpoint import Linear
from pipeline.model_shape import ModelShape
from pipeline.quantizers import llama_cpp_gguf
from pipeline.quantizers.llama_cpp_gguf import Settings


def shape(architecture: str) -> ModelShape:
    return ModelShape("any", architecture, (), None, attention_heads=4)


@pytest.mark.parametrize("name", ["Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K", "F16"])
def test_the_types_of_llama_cpp_are_taken(name: str) -> None:
    assert Settings(type=name).type == name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings", [{"type": "Q4_K"}, {"type": "IQ2_XXS"}, {"type": "q8_0"}, {"output_tensor_type": "Q4_K_M"}, {"kind": 1}]
)
def test_other_types_and_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(settings)


def test_an_architecture_that_is_not_converted_is_told_before_any_work() -> None:
    assert llama_cpp_gguf.check(Settings(), shape("LlamaForCausalLM")) == []
    [problem] = llama_cpp_gguf.check(Settings(), shape("GemmaForCausalLM"))
    assert problem.startswith("type: the base model is a GemmaForCausalLM; ")
    assert "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM" in problem


def test_modules_are_those_whose_matrix_is_no_float() -> None:
    names = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.layers.0.self_attn.q_proj.weight": "blk.0.attn_q.weight",
        "model.layers.0.mlp.down_proj.weight": "blk.0.ffn_down.weight",
        "model.layers.0.input_layernorm.weight": "blk.0.attn_norm.weight",
        "lm_head.weight": "output.weight",
    }
    types = {
        "token_embd.weight": "Q8_0",
        "blk.0.attn_q.weight": "Q5_0",
        "blk.0.ffn_down.weight": "F16",
        "blk.0.attn_norm.weight": "F32",
        "output.weight": "Q6_K",
    }
    assert llama_cpp_gguf.quantized_modules(names, types) == ["model.layers.0.self_attn.q_proj", "lm_head"]


def test_the_log_s_pieces_make_lines_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    log = llama_cpp_gguf._Log()
    for piece in (
        b"[   3/ 272] ",
        b"blk.0.attn_q.weight - [576, 576]",
        b", size = 1 MiB\nmodel",
        b" size = 2 MiB\nrest",
    ):
        log(2, piece, None)
    lines = capsys.readouterr().out.splitlines()
    assert "[   3/ 272] blk.0.attn_q.weight - [576, 576], size = 1 MiB" in lines
    assert [step for line in lines if (step := progress.parse(line))] == [progress.Progress(3, 272, "tensors")]
    assert log.last_line == "model size = 2 MiB"


def problems(head: Linear | None = None, config: dict[str, Any] | None = None, **settings: Any) -> list[str]:
    model = ModelShape("any", "LlamaForCausalLM", (), head, attention_heads=4, config=config or {})
    return llama_cpp_gguf.check(Settings.model_validate(settings), model)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"sliding_window": 1024, "max_position_embeddings": 4096}, "type: sliding_window 1024 of config.json"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "type: rope_type 'yarn' of config.json"),
        ({"hidden_act": "gelu"}, "type: hidden_act 'gelu' of config.json"),
    ],
)
def test_what_the_conversion_refuses_is_told_before_any_work(config: dict[str, Any], words: str) -> None:
    [problem] = problems(config=config)
    assert problem.startswith(words)


HEAD = Linear("lm_head", 64, 100)


@pytest.mark.parametrize(
    ("head", "settings", "begins"),
    [
        (HEAD, {"type": "F16", "pure": True}, "pure: true is about"),
        (HEAD, {"output_tensor_type": "Q6_K", "quantize_output_tensor": False}, "output_tensor_type: Q6_K is never"),
        (None, {"quantize_output_tensor": False}, "quantize_output_tensor: false is about"),
        (None, {"output_tensor_type": "Q6_K", "token_embedding_type": "F16"}, "output_tensor_type: Q6_K is never used"),
    ],
)
def test_settings_that_would_change_nothing_are_refused(
    head: Linear | None, settings: dict[str, Any], begins: str
) -> None:
    [problem] = problems(head, **settings)
    assert problem.startswith(begins)


@pytest.mark.parametrize(
    ("head", "settings"),
    [
        (HEAD, {"type": "Q4_0", "pure": True}),
        (HEAD, {"output_tensor_type": "Q6_K", "token_embedding_type": "F16"}),
        (HEAD, {"quantize_output_tensor": False}),
        # llama.cpp gives the shared matrix the type of the output layer.
        (None, {"output_tensor_type": "Q6_K"}),
    ],
)
def test_settings_that_change_something_are_taken(head: Linear | None, settings: dict[str, Any]) -> None:
    assert problems(head, **settings) == []


def test_room_on_the_disk_is_for_the_widest_type_and_the_file_between() -> None:
    assert Settings().stored_bytes(10) == 20
    assert Settings(type="F32").stored_bytes(10) == Settings(token_embedding_type="F32").stored_bytes(10) == 40
    assert Settings().temporary_bytes(10) == 20
