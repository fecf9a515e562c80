from __future__ import annotations

from typing import Any

from pipeline.calibration import CalibrationSettings
from pipeline.checkpoint import Linear
from pipeline.model_shape import ModelShape
from pipeline.quantizers import autoawq, gptqmodel_awq

CALIBRATION = CalibrationSettings(set="general", samples=8)


def settings(**changes: Any) -> autoawq.Settings:
    return autoawq.Settings(calibration=CALIBRATION, **changes)


def shape(model_type: str = "llama", **out_features: int) -> ModelShape:
    layers = tuple(Linear(f"model.layers.0.{name}", 64, size) for name, size in out_features.items())
    return ModelShape(model_type, "", layers, lm_head=None, attention_heads=None)


def test_what_autoawq_can_pack_and_search_is_good() -> None:
    assert autoawq.check(settings(), shape(q_proj=8, k_proj=24, v_proj=64, up_proj=192)) == []


def test_output_sizes_that_do_not_pack_are_refused() -> None:
    [problem] = autoawq.check(settings(clip_search=False), shape(up_proj=100))
    assert problem == (
        "bits: model.layers.0.up_proj has 100 output features, but autoawq packs multiples of 8 only; use gptqmodel_awq"
    )


def test_output_sizes_that_the_clip_search_does_not_take_are_refused_only_with_it() -> None:
    model = shape(q_proj=96, up_proj=96)
    [problem] = autoawq.check(settings(), model)
    assert problem.startswith("clip_search: model.layers.0.up_proj has 96 output features, but")
    assert "multiples of 64 only; set it to false" in problem
    assert autoawq.check(settings(clip_search=False), model) == []


def test_a_module_is_unclipped_by_its_name_within_the_layer_alone() -> None:
    layer = Linear("key_model.layers.0.mlp.up_proj", 64, 96)
    model = ModelShape("llama", "", (layer,), lm_head=None, attention_heads=None)
    assert len(autoawq.check(settings(), model)) == 1


def test_group_size_and_model_type_are_checked_too() -> None:
    problems = autoawq.check(settings(group_size=128), shape(model_type="gpt2", up_proj=64))
    assert [problem.split(" ")[0] for problem in problems] == ["group_size", "calibration:"]


def test_the_estimate_of_memory_counts_float32_weights_and_the_bound_on_the_search() -> None:
    # 1000 weights of 4 bytes; input and output of 10 tokens × 64 in 4 bytes.
    assert settings(search_memory_mib=3).working_bytes(shape(up_proj=64), 1000, 10, "cpu") == {
        "weights in float32": 4000,
        "a block's input and output on the calibration text": 2 * 4 * 10 * 64,
        "the bound on the search (search_memory_mib)": 3 * 2**20,
    }


def test_the_kernel_is_that_of_awq_checkpoints() -> None:
    for device in ("cpu", "cuda"):
        assert settings().kernel(device, "bfloat16") == gptqmodel_awq.Settings(calibration=CALIBRATION).kernel(
            device, "bfloat16"
        )
    assert settings(group_size=16).kernel("cpu", "bfloat16").breaks
