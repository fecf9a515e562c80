from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pipeline import progress
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
