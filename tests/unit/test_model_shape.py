from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from pipeline import model_shape, store
from pipeline.checkpoint import Linear
from pipeline.model_shape import ROW_PARALLEL, ModelShape


def test_the_shape_of_a_checkpoint(tiny_checkpoint: Path) -> None:
    shape = model_shape.read(tiny_checkpoint)
    assert (shape.model_type, shape.architecture) == ("llama", "LlamaForCausalLM")
    assert (shape.attention_heads, shape.hidden_size, shape.widest_input) == (4, 128, 256)
    assert (shape.kv_heads, shape.context_length) == (2, 1024)
    assert shape.config["hidden_act"] == "silu"
    assert len(shape.linears) == 14
    assert shape.lm_head is None
    assert shape.all_linears == shape.linears


def with_own_head(source: Path, out: Path, *, tied: bool) -> Path:
    out.mkdir()
    tensors = load_file(source / "model.safetensors")
    save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]}, out / "model.safetensors")
    store.write_json(out / "config.json", {**store.read_json(source / "config.json"), "tie_word_embeddings": tied})
    return out


def test_an_lm_head_of_its_own_counts_unless_the_config_ties_it(tiny_checkpoint: Path, tmp_path: Path) -> None:
    own = model_shape.read(with_own_head(tiny_checkpoint, tmp_path / "own", tied=False))
    vocabulary = load_file(tiny_checkpoint / "model.safetensors")["model.embed_tokens.weight"].shape[0]
    assert own.lm_head == Linear("lm_head", in_features=128, out_features=vocabulary)
    assert own.all_linears[-1] == own.lm_head
    assert model_shape.read(with_own_head(tiny_checkpoint, tmp_path / "tied", tied=True)).lm_head is None


@pytest.mark.parametrize(
    ("name", "devices", "inputs"),
    [("a.o_proj", 1, 96), ("a.o_proj", 2, 48), ("a.down_proj", 4, 24), ("a.o_proj", 5, 96), ("a.q_proj", 2, 96)],
)
def test_only_row_parallel_layers_split_their_input(name: str, devices: int, inputs: int) -> None:
    shape = ModelShape("llama", "", (), None, None, tensor_parallel=devices)
    assert shape.shard_inputs(Linear(name, in_features=96, out_features=96)) == inputs


def test_row_parallel_names_agree_with_transformers_own_plans() -> None:
    """Its configs name each layer `colwise` or `rowwise`, for the models it can split."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    known = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "phi3", "olmo2", "glm", "granite", "cohere")
    plans = [CONFIG_MAPPING[name].base_model_tp_plan for name in known]
    ways = {
        way: {layer.rsplit(".", 1)[-1] for plan in plans for layer, found in plan.items() if found.startswith(way)}
        for way in ("rowwise", "colwise")
    }
    assert ways["rowwise"]
    assert ways["rowwise"] <= ROW_PARALLEL
    assert not ways["colwise"] & ROW_PARALLEL
