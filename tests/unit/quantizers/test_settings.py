"""Settings of the quantizers without calibration, checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline import plugins
from pipeline.calibration import CalibrationSettings
from pipeline.checkpoint import Linear
from pipeline.model_shape import ModelShape
from pipeline.quantizers import QuantizeJob, _skipping, bitsandbytes_nf4, gptqmodel_gptq, rtn, torchao_fp8, torchao_int8

LINEARS = (
    Linear("model.layers.0.self_attn.q_proj", 576, 576),
    Linear("model.layers.0.mlp.down_proj", 1536, 576),
)
HEAD = Linear("lm_head", 576, 49152)
ALL = ["q_proj", "down_proj"]


def shape(head: Linear | None = HEAD) -> ModelShape:
    return ModelShape("llama", "LlamaForCausalLM", LINEARS, head, attention_heads=9)


def problems(skipped: Sequence[str], model: ModelShape) -> list[str]:
    """What the quantizers that share this setting say, which must be the same of all."""
    found = [
        module.check(module.Settings(skip_modules=list(skipped)), model)
        for module in (bitsandbytes_nf4, torchao_int8, torchao_fp8)
    ]
    assert found[0] == found[1] == found[2]
    return found[0]


@pytest.mark.parametrize("head", [HEAD, None])
def test_the_defaults_fit_tied_and_untied_models(head: Linear | None) -> None:
    assert problems(["lm_head"], shape(head)) == []
    assert rtn.check(rtn.Settings(), shape(head)) == []


def test_a_head_with_weights_of_its_own_may_be_quantized() -> None:
    assert problems([], shape()) == []
    assert problems(ALL, shape()) == []


def test_a_tied_head_must_be_left_alone() -> None:
    [problem] = problems(["q_proj"], shape(None))
    assert problem.startswith("skip_modules: put lm_head in; ")


@pytest.mark.parametrize("head", [HEAD, None])
def test_something_must_be_left_to_quantize(head: Linear | None) -> None:
    [problem] = problems(["lm_head", *ALL], shape(head))
    assert problem == "skip_modules: nothing is left to quantize; take some out"
    [problem] = rtn.check(rtn.Settings(skip_modules=ALL), shape(head))
    assert problem == "skip_modules: nothing is left to quantize; take some out"


def test_every_name_that_no_module_has_is_told() -> None:
    assert problems(["lm_haed", "lm_head", "proj"], shape()) == [
        "skip_modules: no module 'lm_haed'; this model has down_proj, lm_head, q_proj",
        "skip_modules: no module 'proj'; this model has down_proj, lm_head, q_proj",
    ]


def test_rtn_names_layers_that_groups_do_not_fit_unless_they_are_skipped() -> None:
    [problem] = rtn.check(rtn.Settings(group_size=128), shape())
    assert problem.startswith("group_size 128 does not divide every layer: model.layers.0.self_attn.q_proj has 576")
    assert rtn.check(rtn.Settings(group_size=128, skip_modules=["q_proj"]), shape()) == []


def test_a_grid_for_activations_that_are_not_quantized_is_a_mistake() -> None:
    [problem] = torchao_int8.check(torchao_int8.Settings(activations="none", sym=False), shape())
    assert problem.startswith("sym: false is about activations")
    assert torchao_int8.check(torchao_int8.Settings(sym=False), shape()) == []


def test_names_are_handed_to_libraries_in_full(tiny_checkpoint: Path) -> None:
    """A library that takes ends of names would skip gate_up_proj for up_proj."""
    settings = torchao_int8.Settings(skip_modules=["lm_head", "up_proj", "model.layers.1.self_attn.o_proj"])
    job = QuantizeJob(tiny_checkpoint, tiny_checkpoint, settings, [], "cpu", "bfloat16", 0)
    assert set(_skipping.full_names(job)) == {
        "lm_head",
        "model.layers.0.mlp.up_proj",
        "model.layers.1.mlp.up_proj",
        "model.layers.1.self_attn.o_proj",
    }


def test_kernels_that_do_not_run_here_are_told_from_the_settings() -> None:
    fp8 = torchao_fp8.Settings()
    assert (fp8.kernel("cpu", "bfloat16").unfit, fp8.kernel("cpu", "bfloat16").sole) == (
        "multiplies FP8 on GPUs alone",
        True,
    )
    assert (fp8.kernel("cuda", "bfloat16").unfit, fp8.kernel("cuda", "bfloat16").capability) == (None, 8.9)
    assert torchao_int8.Settings().kernel("cpu", "bfloat16").unfit is None
    for settings in (torchao_fp8.Settings(activations="none"), torchao_int8.Settings(activations="none")):
        kernel = settings.kernel("cuda", "bfloat16")
        assert kernel.unfit is not None
        assert kernel.unfit.endswith("activations, and settings.activations is none")
        assert not kernel.sole


def test_rtn_has_the_kernels_of_the_gptq_format() -> None:
    assert rtn.Settings().kernel("cpu", "bfloat16").unfit is None
    assert rtn.Settings(bits=3).kernel("cpu", "bfloat16").unfit == "reads weights of 4 bits, not 3"
    assert rtn.Settings(group_size=16).kernel("cpu", "bfloat16").breaks
    gptq = gptqmodel_gptq.Settings(calibration=CalibrationSettings(set="plain", samples=1))
    assert [rtn.Settings().kernel(device, "bfloat16") for device in ("cpu", "cuda")] == [
        gptq.kernel(device, "bfloat16") for device in ("cpu", "cuda")
    ]
    assert rtn.Settings().working_bytes(shape(), parameters=10, tokens=0, device="cpu") == {"weights in 32 bits": 40}


def test_fp8_with_a_scale_per_row_wants_a_model_in_bfloat16() -> None:
    assert torchao_fp8.Settings().kernel("cuda", "bfloat16").breaks is None
    breaks = torchao_fp8.Settings().kernel("cuda", "float16").breaks or ""
    assert breaks.startswith("gives bfloat16 alone where rows have scales of their own (granularity: row), and runtime")
    assert breaks.endswith("is float16: set that to bfloat16, or settings.granularity to tensor")
    assert torchao_fp8.Settings(granularity="tensor").kernel("cuda", "float16").breaks is None
    assert torchao_fp8.Settings(activations="none").kernel("cuda", "float16").breaks is None


@pytest.mark.parametrize(
    ("quantizer", "setting"),
    [
        ("bitsandbytes_int8", "outlier_threshold"),
        ("gptqmodel_gptq", "mse"),
        ("gptqmodel_gptq", "gptaq_alpha"),
        ("auto_round", "lr"),
    ],
)
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_is_no_finite_number_is_refused(quantizer: str, setting: str, value: float) -> None:
    kind = plugins.load("pipeline.quantizers", quantizer).Settings
    calibration = {"calibration": {"set": "plain", "samples": 1}} if "calibration" in kind.model_fields else {}
    kind.model_validate({**calibration, setting: 0.5})
    with pytest.raises(ValidationError, match="finite number"):
        kind.model_validate({**calibration, setting: value})


def test_layers_that_cannot_be_told_are_not_said_to_be_skipped() -> None:
    unknown = ModelShape("gpt2", "GPT2LMHeadModel", (), None, attention_heads=4)
    assert problems(["lm_head"], unknown) == []
    assert rtn.check(rtn.Settings(), unknown) == []
