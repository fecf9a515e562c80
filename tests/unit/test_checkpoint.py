from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pipeline import checkpoint, store
from pipeline.artifact_records import BaseModelInfo, Manifest
from pipeline.checkpoint import Linear
from pipeline.errors import UserError

BASE = BaseModelInfo(name="tiny", source="local:x", revision="r", licence="Apache-2.0", provenance="random")

TENSORS = {
    "model.embed_tokens.weight": (10, 4),
    "model.layers.0.self_attn.q_proj.weight": (6, 4),
    "model.layers.0.self_attn.q_proj.bias": (6,),
    "model.layers.0.input_layernorm.weight": (4,),
    "model.layers.0.mlp.down_proj.weight": (4, 8),
    "lm_head.weight": (10, 4),
}


def make(folder: Path, tensors: dict[str, tuple[int, ...]] = TENSORS, name: str = "model.safetensors") -> Path:
    folder.mkdir(exist_ok=True)
    save_file({key: np.zeros(shape, np.float16) for key, shape in tensors.items()}, folder / name, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 64}))
    return folder


def write_manifest(folder: Path, **changes: Any) -> Manifest:
    fields: dict[str, Any] = {
        "name": "int4",
        "base": BASE,
        "quantizer": "fp16",
        "settings": {"bits": 4},
        "packages": {"torch": "2"},
        "format": "safetensors",
        "parameters": 100,
        "quantized_modules": ["b", "a"],
    }
    return checkpoint.write_manifest(folder, **(fields | changes))


def test_shapes_are_read_from_the_headers_of_all_files(tmp_path: Path) -> None:
    first = dict(list(TENSORS.items())[:3])
    second = dict(list(TENSORS.items())[3:])
    make(tmp_path, first, "model-00001-of-00002.safetensors")
    make(tmp_path, second, "model-00002-of-00002.safetensors")
    assert checkpoint.tensor_shapes(tmp_path) == TENSORS


def test_linears_are_the_matrices_inside_the_decoder_blocks(tmp_path: Path) -> None:
    assert checkpoint.linears(make(tmp_path)) == [
        Linear("model.layers.0.mlp.down_proj", in_features=8, out_features=4),
        Linear("model.layers.0.self_attn.q_proj", in_features=4, out_features=6),
    ]


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("model.layers.3.mlp.up_proj.weight", "model.layers.3"),
        ("transformer.h.11.self_attention.dense.weight", "transformer.h.11"),
        ("h.0.attn.c_attn.weight", "h.0"),
        ("model.layers.2.block_sparse_moe.experts.5.w1.weight", "model.layers.2"),
        ("model.embed_tokens.weight", None),
        ("lm_head.weight", None),
        ("model.layers.3", None),
    ],
)
def test_the_block_that_a_tensor_is_in(name: str, block: str | None) -> None:
    assert checkpoint.block(name) == block


def test_linears_of_models_whose_blocks_have_other_names_are_found(tmp_path: Path) -> None:
    falcon = {
        "transformer.word_embeddings.weight": (10, 4),
        "transformer.h.0.self_attention.query_key_value.weight": (12, 4),
        "transformer.h.0.mlp.dense_4h_to_h.weight": (4, 16),
        "transformer.h.0.input_layernorm.weight": (4,),
    }
    assert {*checkpoint.linears(make(tmp_path, falcon))} == {
        Linear("transformer.h.0.self_attention.query_key_value", in_features=4, out_features=12),
        Linear("transformer.h.0.mlp.dense_4h_to_h", in_features=16, out_features=4),
    }


def test_matrices_that_lie_the_other_way_round_show_by_a_bias_as_long_as_their_rows(tmp_path: Path) -> None:
    """As of GPT-2; of its square matrix the shape alone does not tell."""
    gpt2 = {
        "transformer.wte.weight": (10, 4),
        "transformer.h.0.attn.c_attn.weight": (4, 12),
        "transformer.h.0.attn.c_attn.bias": (12,),
        "transformer.h.0.attn.c_proj.weight": (4, 4),
        "transformer.h.0.attn.c_proj.bias": (4,),
        "transformer.h.0.mlp.c_proj.weight": (16, 4),
        "transformer.h.0.mlp.c_proj.bias": (4,),
    }
    assert {*checkpoint.linears(make(tmp_path, gpt2))} == {
        Linear("transformer.h.0.attn.c_attn", in_features=4, out_features=12),
        Linear("transformer.h.0.attn.c_proj", in_features=4, out_features=4),
        Linear("transformer.h.0.mlp.c_proj", in_features=16, out_features=4),
    }


@pytest.mark.parametrize("name", checkpoint.CONTEXT_LENGTH)
def test_the_context_length_has_other_names_in_other_models(tmp_path: Path, name: str) -> None:
    store.write_json(tmp_path / "config.json", {name: 2048})
    assert checkpoint.context_length(tmp_path) == 2048


def test_faults_on_loading_are_told_by_kind_and_name_with_the_others_counted() -> None:
    info = {"missing_keys": {"d", "c", "b", "a"}, "unexpected_keys": set(), "mismatched_keys": {("e", (1,), (2,))}}
    assert checkpoint.faults_on_loading(info) == "missing keys a, b, c and 1 more; mismatched keys e"
    assert checkpoint.faults_on_loading({"missing_keys": set(), "error_msgs": []}) is None


def test_parameters_are_counted_over_all_tensors(tmp_path: Path) -> None:
    assert checkpoint.parameter_count(make(tmp_path)) == 40 + 24 + 6 + 4 + 32 + 40


def test_a_tiny_llama_has_seven_linears_per_layer_and_no_head_of_its_own(tiny_checkpoint: Path) -> None:
    linears = checkpoint.linears(tiny_checkpoint)
    assert len(linears) == 14
    assert Linear("model.layers.1.mlp.down_proj", in_features=256, out_features=128) in linears
    assert Linear("model.layers.0.self_attn.k_proj", in_features=128, out_features=64) in linears


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        checkpoint.tensor_shapes(tmp_path / "none")


def test_a_checkpoint_of_pickle_files_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    (tmp_path / "notes.txt").write_bytes(b"x")
    with pytest.raises(UserError) as caught:
        checkpoint.tensor_shapes(tmp_path)
    text = str(caught.value)
    assert "no .safetensors file (found pytorch_model.bin); only safetensors checkpoints are loaded" in text
    assert "save_pretrained" in text


def test_an_empty_folder_is_refused_without_naming_other_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no \.safetensors file; only"):
        checkpoint.tensor_shapes(tmp_path)


def with_header(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"abc",
        b"\xff" * 8,
        (1 << 40).to_bytes(8, "little") + b"{}",
        with_header(b'{"a": '),
        with_header(b"\xff\xfe"),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    ],
)
def test_a_damaged_header_is_told_with_its_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        checkpoint.tensor_shapes(tmp_path)
    assert caught.value.problems == (f"{path}: damaged; its safetensors header cannot be read",)


@pytest.mark.parametrize("header", [b"[]", b'{"a": {}}', b'{"a": 1}', b'{"a": {"shape": 3}}', b"[" * 100_000])
def test_a_header_that_is_json_but_no_table_of_tensors_is_told(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(with_header(header))
    with pytest.raises(UserError, match="damaged"):
        checkpoint.tensor_shapes(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "missing; a checkpoint folder needs its config.json"),
        ("{", "not JSON"),
        ("{}", "none of max_position_embeddings, n_positions, seq_length, max_seq_len, so"),
        (
            '{"max_position_embeddings": "64"}',
            "none of max_position_embeddings, n_positions, seq_length, max_seq_len, so",
        ),
    ],
)
def test_a_config_without_a_context_length_is_told(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=words):
        checkpoint.context_length(tmp_path)


@pytest.mark.parametrize("content", ["[1]", "3", "null"])
def test_a_config_that_is_no_object_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError):
        checkpoint.context_length(tmp_path)


def test_the_manifest_lists_every_file_but_itself(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(b"abc")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.txt").write_bytes(b"")
    assert not checkpoint.is_complete(tmp_path)
    manifest = write_manifest(tmp_path)
    assert checkpoint.is_complete(tmp_path)
    assert list(manifest.files) == ["config.json", "model.safetensors", "sub/more.txt", "tokenizer.json"]
    assert manifest.files["tokenizer.json"].bytes == 3
    # SHA-256 of "abc": FIPS 180-2, appendix B.1.
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert manifest.files["tokenizer.json"].sha256 == abc
    assert manifest.quantized_modules == ["a", "b"]
    assert checkpoint.read_manifest(tmp_path) == manifest


def test_the_artifact_hash_is_over_names_and_hashes_alone(tmp_path: Path) -> None:
    manifest = write_manifest(make(tmp_path))
    table = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.glob("[cm]o*")}
    assert len(table) == 2
    canonical = json.dumps(table, sort_keys=True, separators=(",", ":"))
    assert manifest.artifact_sha256 == hashlib.sha256(canonical.encode()).hexdigest()


def test_writing_the_manifest_again_changes_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path)
    write_manifest(folder)
    once = (folder / store.MANIFEST).read_bytes()
    write_manifest(folder)
    assert (folder / store.MANIFEST).read_bytes() == once


def test_two_folders_with_equal_files_have_one_hash(tmp_path: Path) -> None:
    first, second = make(tmp_path / "a"), make(tmp_path / "b")
    assert write_manifest(first).artifact_sha256 == write_manifest(second, name="other").artifact_sha256


@pytest.mark.parametrize("change", ["byte", "name", "new file"])
def test_the_hash_changes_with_a_byte_a_name_or_a_file(tmp_path: Path, change: str) -> None:
    folder = make(tmp_path)
    before = write_manifest(folder).artifact_sha256
    weights = folder / "model.safetensors"
    if change == "byte":
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    elif change == "name":
        weights.rename(folder / "other.safetensors")
    else:
        (folder / "empty.txt").touch()
    assert write_manifest(folder).artifact_sha256 != before


def test_weight_bytes_are_those_of_the_safetensors_files_and_bits_follow(tmp_path: Path) -> None:
    folder = make(tmp_path)
    make(folder, {"x": (2, 2)}, "more.safetensors")
    (folder / "big.json").write_bytes(b" " * 5000)
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    manifest = write_manifest(folder, parameters=150)
    assert manifest.weight_bytes == size
    assert manifest.bits_per_weight == pytest.approx(8 * size / 150)


def test_weights_in_a_gguf_file_count_too(tmp_path: Path) -> None:
    folder = make(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "model.gguf").write_bytes(b" " * 300)
    assert write_manifest(folder, parameters=150).weight_bytes == 300


def test_tokenizer_and_template_are_hashed_apart_from_the_rest(tmp_path: Path) -> None:
    folder = make(tmp_path)
    bare = write_manifest(folder)
    assert bare.chat_template_sha256 is None
    (folder / "chat_template.jinja").write_bytes(b"abc")
    (folder / "tokenizer_config.json").write_text("{}")
    templated = write_manifest(folder)
    assert templated.chat_template_sha256 == store.sha256_text("abc")
    assert templated.tokenizer_sha256 == bare.tokenizer_sha256
    (folder / "tokenizer.json").write_text("{}")
    assert write_manifest(folder).tokenizer_sha256 != bare.tokenizer_sha256


def test_versions_of_packages_that_are_not_installed_are_left_out() -> None:
    assert list(checkpoint.package_versions(["pydantic", "no-such-package-here"])) == ["pydantic"]
