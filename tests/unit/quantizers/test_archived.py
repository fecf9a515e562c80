from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.checkpoint import Linear
from pipeline.model_shape import ModelShape
from pipeline.quantizers import _archived

CONFIG = {
    "model_type": "llama",
    "dtype": "float16",
    "hidden_size": 576,
    "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
}


def test_the_dtype_and_rotary_base_stand_where_transformers_4_looks_for_them() -> None:
    assert _archived.older_config(CONFIG) == {
        "model_type": "llama",
        "torch_dtype": "float16",
        "hidden_size": 576,
        "rope_theta": 100000.0,
        "rotary_emb_base": 100000.0,
    }


def test_a_scaled_rotary_embedding_becomes_rope_scaling() -> None:
    rope = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0, "partial_rotary_factor": 0.5}
    older = _archived.older_config({**CONFIG, "rope_parameters": rope})
    assert older["rope_scaling"] == {"type": "linear", "factor": 4.0}
    assert (older["rope_theta"], older["partial_rotary_factor"], older["rotary_pct"]) == (1e4, 0.5, 0.5)
    assert "rope_parameters" not in older


def test_longrope_has_its_original_length_at_the_top_level() -> None:
    factors = {"short_factor": [1.0], "long_factor": [2.0]}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 4096, **factors}
    older = _archived.older_config({**CONFIG, "rope_parameters": rope})
    assert older["rope_scaling"] == {"type": "longrope", **factors}
    assert older["original_max_position_embeddings"] == 4096


def test_a_config_of_transformers_4_stays_as_it_is() -> None:
    config = {"model_type": "llama", "torch_dtype": "float16", "rope_theta": 5e5, "rope_scaling": None}
    assert _archived.older_config(config) == config


def test_rotary_embeddings_that_differ_between_layers_are_refused() -> None:
    rope = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    with pytest.raises(ValueError, match=r"each of full_attention, sliding_attention, .* use gptqmodel_gptq"):
        _archived.older_config({**CONFIG, "rope_parameters": rope})


def test_the_folder_holds_the_config_and_links_to_the_weights_and_goes_away(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text(json.dumps(CONFIG))
    for name in ("model-1.safetensors", "model-2.safetensors", "model.safetensors.index.json", "tokenizer.json"):
        (base / name).write_text(name)
    with _archived.older_checkpoint(base) as folder:
        held = {path.name for path in folder.iterdir()}
        assert held == {"config.json", "model-1.safetensors", "model-2.safetensors", "model.safetensors.index.json"}
        assert json.loads((folder / "config.json").read_text()) == _archived.older_config(CONFIG)
        assert (folder / "model-2.safetensors").resolve() == base / "model-2.safetensors"
    assert not folder.exists()
    assert (base / "model-1.safetensors").read_text() == "model-1.safetensors"
    assert json.loads((base / "config.json").read_text()) == CONFIG


def test_a_model_type_that_the_package_does_not_know_is_named_with_a_way_out() -> None:
    layers = (Linear("model.layers.0.mlp.up_proj", 64, 64),)
    model = ModelShape("gemma3", "Gemma3ForCausalLM", layers, lm_head=None, attention_heads=4)
    assert _archived.model_type_problems(model, ("llama", "bloom"), "auto-gptq", "gptqmodel_gptq") == [
        "calibration: auto-gptq does not know the model type 'gemma3' of config.json, only bloom, llama; "
        "use gptqmodel_gptq"
    ]
    assert _archived.model_type_problems(model, ("gemma3",), "auto-gptq", "gptqmodel_gptq") == []
