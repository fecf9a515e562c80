"""A checkpoint as a GGUF file, read back with the `gguf` package; llama.cpp itself is not needed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest

from pipeline.errors import UserError
from pipeline.quantizers import _gguf_conversion as conversion
from pipeline.quantizers import _gguf_tokenizer

gguf = pytest.importorskip("gguf")

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def changed(checkpoint: Path, folder: Path, **config: Any) -> Path:
    """A copy of the checkpoint with other values in its config.json; None takes one out."""
    copy = Path(shutil.copytree(checkpoint, folder / "changed"))
    values = json.loads((copy / "config.json").read_text())
    values = {key: value for key, value in (values | config).items() if value is not None}
    (copy / "config.json").write_text(json.dumps(values))
    return copy


def written(base: Path, folder: Path) -> Any:
    path = folder / "floats.gguf"
    conversion.write(base, path, _gguf_tokenizer.add_none)
    return gguf.GGUFReader(path)


def value(reader: Any, key: str) -> Any:
    return reader.fields[key].contents()


# --- what is refused -------------------------------------------------------------------------------------------


def test_a_llama_is_good() -> None:
    assert conversion.problems(CONFIG) == []
    assert conversion.problems({**CONFIG, "rope_parameters": LLAMA3}) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"architectures": ["GemmaForCausalLM"]}, "the base model is a GemmaForCausalLM; a GGUF file is written of"),
        ({"architectures": None}, "the base model is a model without `architectures` in config.json"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_type 'yarn' of config.json is not converted"),
        ({"rope_scaling": {"type": "dynamic"}}, "rope_type 'dynamic' of config.json is not converted"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' of config.json"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor of config.json"),
        ({"sliding_window": 512}, "sliding_window 512 of config.json"),
    ],
)
def test_what_llama_cpp_would_compute_otherwise_is_refused(change: dict[str, Any], words: str) -> None:
    [problem] = conversion.problems({**CONFIG, **change})
    assert problem.startswith(words)


def test_every_problem_is_told_at_once() -> None:
    assert len(conversion.problems({**CONFIG, "hidden_act": "gelu", "sliding_window": 8, "architectures": ["T5"]})) == 3


@pytest.mark.parametrize("harmless", [{"sliding_window": 1024}, {"sliding_window": 8, "use_sliding_window": False}])
def test_a_window_that_hides_nothing_is_good(harmless: dict[str, Any]) -> None:
    assert conversion.problems({**CONFIG, **harmless}) == []


def test_rope_is_read_as_either_transformers_writes_it() -> None:
    now = conversion.rope({"rope_parameters": {"rope_type": "linear", "rope_theta": 5e5, "factor": 2.0}})
    before = conversion.rope({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}})
    assert now == before == conversion.Rope("linear", 5e5, {"factor": 2.0})
    assert conversion.rope({}) == conversion.Rope("default", 10000.0, {})


def test_tensors_without_a_place_are_named(tiny_checkpoint: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    base = changed(tiny_checkpoint, tmp_path)
    tensors = load_file(base / "model.safetensors")
    save_file({**tensors, "model.layers.0.adapter.weight": numpy.ones((2, 2))}, base / "model.safetensors")
    with pytest.raises(UserError, match=r"1 tensors have no place .* model\.layers\.0\.adapter\.weight"):
        written(base, tmp_path)


# --- rows that are rotated -------------------------------------------------------------------------------------


def test_rows_half_a_head_apart_become_neighbours_in_each_head() -> None:
    rows = numpy.arange(8)[:, None] * numpy.ones((1, 3))
    assert conversion.adjacent_pairs(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert conversion.adjacent_pairs(numpy.arange(8), 1).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_scores_of_reordered_queries_and_keys_are_the_same_when_neighbours_are_rotated() -> None:
    """What the order is for: attention scores of one head at two positions, rotated either way."""
    random = numpy.random.default_rng(0)
    width, angles = 8, numpy.array([1.0, 0.3, 0.1, 0.03])
    query, key = random.normal(size=(2, width))

    def halves(vector: Any, place: int) -> Any:
        first, second = vector[: width // 2], vector[width // 2 :]
        cos, sin = numpy.cos(place * angles), numpy.sin(place * angles)
        return numpy.concatenate([first * cos - second * sin, second * cos + first * sin])

    def neighbours(vector: Any, place: int) -> Any:
        cos, sin = numpy.cos(place * angles), numpy.sin(place * angles)
        return numpy.stack(
            [vector[::2] * cos - vector[1::2] * sin, vector[1::2] * cos + vector[::2] * sin], axis=1
        ).ravel()

    wanted = halves(query, 7) @ halves(key, 3)
    reordered = [conversion.adjacent_pairs(vector, 1) for vector in (query, key)]
    assert neighbours(reordered[0], 7) @ neighbours(reordered[1], 3) == pytest.approx(wanted)
    assert neighbours(query, 7) @ neighbours(key, 3) != pytest.approx(wanted)


def test_llama_3_frequencies_are_those_of_transformers() -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(hidden_size=512, num_attention_heads=4, max_position_embeddings=131072, rope_parameters=LLAMA3)
    theirs, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 500000.0 ** (-numpy.arange(0, 128, 2) / 128)
    factors = conversion.llama3_factors(conversion.rope({"rope_parameters": LLAMA3}), 128)
    assert plain / factors == pytest.approx(theirs.numpy(), rel=1e-5)
    assert {factors.min(), factors.max()} == {1.0, 8.0}


# --- the file --------------------------------------------------------------------------------------------------


def test_metadata_is_what_the_config_says(tiny_checkpoint: Path, tmp_path: Path) -> None:
    reader = written(tiny_checkpoint, tmp_path)
    found = {key: value(reader, key) for key in reader.fields if not key.startswith("GGUF.")}
    epsilon = found.pop("llama.attention.layer_norm_rms_epsilon")
    assert epsilon == pytest.approx(1e-6)
    assert found == {
        "general.architecture": "llama",
        "general.type": "model",
        "general.file_type": 1,
        "general.quantization_version": 2,
        "llama.vocab_size": 512,
        "llama.context_length": 1024,
        "llama.embedding_length": 128,
        "llama.block_count": 2,
        "llama.feed_forward_length": 256,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.attention.key_length": 32,
        "llama.attention.value_length": 32,
        "llama.rope.dimension_count": 32,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "none",
    }


def test_tensors_are_the_checkpoint_s_in_float16_with_norms_in_float32(tiny_checkpoint: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    before = load_file(tiny_checkpoint / "model.safetensors")
    tensors = {tensor.name: tensor for tensor in written(tiny_checkpoint, tmp_path).tensors}
    assert len(tensors) == len(before)
    for name, known, heads in (
        ("model.embed_tokens.weight", "token_embd.weight", None),
        ("model.norm.weight", "output_norm.weight", None),
        ("model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight", 4),
        ("model.layers.1.self_attn.k_proj.weight", "blk.1.attn_k.weight", 2),
        ("model.layers.1.self_attn.v_proj.weight", "blk.1.attn_v.weight", None),
        ("model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight", None),
    ):
        wanted = conversion.adjacent_pairs(before[name], heads) if heads else before[name]
        found = tensors[known]
        assert found.tensor_type.name == ("F32" if wanted.ndim == 1 else "F16"), name
        assert numpy.array_equal(found.data, wanted), name


def test_an_output_layer_of_its_own_is_written_and_a_tied_copy_is_not(tiny_checkpoint: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    base = changed(tiny_checkpoint, tmp_path, tie_word_embeddings=False)
    tensors = load_file(base / "model.safetensors")
    save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]}, base / "model.safetensors")
    assert "output.weight" in {tensor.name for tensor in written(base, tmp_path).tensors}
    shutil.rmtree(base)
    base = changed(tiny_checkpoint, tmp_path, tie_word_embeddings=True)
    save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]}, base / "model.safetensors")
    assert "output.weight" not in {tensor.name for tensor in written(base, tmp_path).tensors}


def test_scaled_rotations_are_written(tiny_checkpoint: Path, tmp_path: Path) -> None:
    base = changed(tiny_checkpoint, tmp_path, rope_parameters=LLAMA3)
    reader = written(base, tmp_path)
    [factors] = [tensor for tensor in reader.tensors if tensor.name == "rope_freqs.weight"]
    assert factors.data.shape == (16,)
    assert value(reader, "llama.rope.freq_base") == 500000.0
    shutil.rmtree(base)
    linear = {"rope_type": "linear", "rope_theta": 20000.0, "factor": 2.0}
    reader = written(changed(tiny_checkpoint, tmp_path, rope_parameters=linear), tmp_path)
    assert value(reader, "llama.rope.scaling.type") == "linear"
    assert value(reader, "llama.rope.scaling.factor") == 2.0


def test_rows_stay_where_llama_cpp_rotates_halves(tiny_checkpoint: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    base = changed(tiny_checkpoint, tmp_path, architectures=["Qwen3ForCausalLM"])
    reader = written(base, tmp_path)
    [query] = [tensor for tensor in reader.tensors if tensor.name == "blk.0.attn_q.weight"]
    assert value(reader, "general.architecture") == "qwen3"
    wanted = load_file(base / "model.safetensors")["model.layers.0.self_attn.q_proj.weight"]
    assert numpy.array_equal(query.data, wanted)
