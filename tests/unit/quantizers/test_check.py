from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.calibration import CalibrationSettings
from pipeline.checkpoint import Linear
from pipeline.model_shape import ModelShape
from pipeline.quantizers import bitsandbytes_int8, fp16, gptqmodel_awq, gptqmodel_gptq, group_size_problems

SIZES = (-1, 16, 32, 64, 128, 256)
# The two input sizes of SmolLM2-135M: 576 = 64 * 9, 1536 = 512 * 3.
SMOLLM = ModelShape(
    "llama",
    "LlamaForCausalLM",
    (
        Linear("model.layers.0.self_attn.q_proj", 576, 576),
        Linear("model.layers.0.mlp.down_proj", 1536, 576),
        Linear("model.layers.1.self_attn.q_proj", 576, 576),
    ),
    lm_head=None,
    attention_heads=9,
)
CALIBRATION = CalibrationSettings(set="general", samples=8)


def test_a_size_that_does_not_divide_names_layer_number_and_fitting_sizes() -> None:
    assert group_size_problems(128, SMOLLM, SIZES) == [
        "group_size 128 does not divide every layer: model.layers.0.self_attn.q_proj has 576 input features. "
        "Sizes that would do: -1, 16, 32, 64"
    ]


def test_every_input_size_that_does_not_fit_is_named_once_by_its_first_layer() -> None:
    [problem] = group_size_problems(1024, SMOLLM, SIZES)
    assert "model.layers.0.self_attn.q_proj has 576 input features; model.layers.0.mlp.down_proj has 1536" in problem
    assert "layers.1" not in problem


@pytest.mark.parametrize("size", [-1, 16, 32, 64])
def test_a_size_that_divides_every_layer_is_good(size: int) -> None:
    assert group_size_problems(size, SMOLLM, SIZES) == []


def test_where_no_size_divides_only_one_group_per_channel_is_left() -> None:
    [problem] = group_size_problems(64, SMOLLM, SIZES, [Linear("odd", 100, 8)])
    assert problem.endswith("odd has 100 input features. Sizes that would do: -1")


def test_a_size_larger_than_a_layer_does_not_fit() -> None:
    [problem] = group_size_problems(64, SMOLLM, SIZES, [Linear("small", 32, 32), Linear("large", 64, 64)])
    assert problem.endswith("small has 32 input features. Sizes that would do: -1, 16, 32")


def test_gptq_and_awq_refuse_128_for_576_and_take_64() -> None:
    for problems in (
        gptqmodel_gptq.check(gptqmodel_gptq.Settings(group_size=128, calibration=CALIBRATION), SMOLLM),
        gptqmodel_awq.check(gptqmodel_awq.Settings(group_size=128, calibration=CALIBRATION), SMOLLM),
    ):
        [problem] = problems
        assert problem.startswith("group_size 128 does not divide every layer: ")
        assert problem.endswith("Sizes that would do: -1, 16, 32, 64")
    assert gptqmodel_gptq.check(gptqmodel_gptq.Settings(group_size=64, calibration=CALIBRATION), SMOLLM) == []
    assert gptqmodel_awq.check(gptqmodel_awq.Settings(group_size=64, calibration=CALIBRATION), SMOLLM) == []


@pytest.mark.parametrize("skipped", [["lm_head"], ["lm_head", "q_proj"], ["lm_head", "model.layers.0.mlp.down_proj"]])
def test_int8_may_skip_modules_there_are(skipped: list[str]) -> None:
    assert bitsandbytes_int8.check(bitsandbytes_int8.Settings(skip_modules=skipped), SMOLLM) == []


def test_int8_quantizes_an_lm_head_only_where_it_has_weights_of_its_own() -> None:
    everything = bitsandbytes_int8.Settings(skip_modules=[])
    assert bitsandbytes_int8.check(everything, replace(SMOLLM, lm_head=Linear("lm_head", 576, 1000))) == []
    assert bitsandbytes_int8.check(everything, SMOLLM) == [
        "skip_modules: put lm_head in; it shares the input embedding's weights, which cannot be quantized for it"
    ]


def test_int8_names_every_module_there_is_not() -> None:
    settings = bitsandbytes_int8.Settings(skip_modules=["lm_head", "lm_haed", "q_proj", "proj"])
    assert bitsandbytes_int8.check(settings, SMOLLM) == [
        "skip_modules: no module 'lm_haed'; this model has down_proj, lm_head, q_proj",
        "skip_modules: no module 'proj'; this model has down_proj, lm_head, q_proj",
    ]


@pytest.mark.parametrize(("devices", "sizes"), [(1, "-1, 16, 32, 64"), (2, "-1, 16, 32, 64"), (16, "-1, 16, 32")])
def test_a_group_must_divide_what_each_device_holds(devices: int, sizes: str) -> None:
    # down_proj's 1536 inputs are split: 768 on each of 2 devices, 96 on each of 16; q_proj keeps its 576.
    [problem] = group_size_problems(512, replace(SMOLLM, tensor_parallel=devices), SIZES)
    assert problem.endswith(f"Sizes that would do: {sizes}")
    assert ("on each of" in problem) is (devices > 1)


def test_a_model_type_that_gptqmodel_does_not_know_is_told() -> None:
    other = replace(SMOLLM, model_type="llamma")
    for problems in (
        gptqmodel_gptq.check(gptqmodel_gptq.Settings(calibration=CALIBRATION), other),
        gptqmodel_awq.check(gptqmodel_awq.Settings(calibration=CALIBRATION), other),
    ):
        [problem] = problems
        assert "GPTQModel does not know the model type 'llamma' of config.json" in problem


def test_fp16_has_nothing_to_check() -> None:
    assert fp16.check(fp16.Settings(), SMOLLM) == []
