"""Every setting reaches GPTQModel, and every field of its configs is either a setting or left out for a reason."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError
from unit.quantizers.test_check import CALIBRATION, SMOLLM

from pipeline.quantizers import QuantizeJob, _gptqmodel, gptqmodel_awq, gptqmodel_gptq

LEFT_OUT = {
    "where and how fast GPTQModel works, not what comes out": {
        "device", "telemetry", "pack_impl", "offload_to_disk", "offload_to_disk_path", "compute_device_filter",
        "calibration_data_device", "auto_forward_data_parallel", "dense_vram_strategy", "dense_vram_strategy_devices",
        "moe_vram_strategy", "moe_vram_strategy_devices", "gc_mode", "wait_for_submodule_finalizers", "hessian",
        "mock_quantization", "_offload_temp_dir",
    },
    "no engine here reads what it makes": {"lm_head", "pack_dtype", "activation", "adapter", "rotation"},
    "set by the quantizer itself": {"method", "meta"},
    "for rounding without calibration": {"preprocessors", "smoother", "smooth"},
}  # fmt: skip
OURS = {"moe": "experts_per_token", "gptaq": "gptaq_alpha", "foem": "foem_beta"}
"""GPTQModel's field → our name for the part of it that users tune."""
NOT_FOR_AWQ = {"true_sequential", "desc_act", "dynamic"}
"""Fields that AWQConfig inherits and AWQ does not read, or reads for `skip_modules` alone."""


def job(folder: Path, settings: Any) -> QuantizeJob:
    return QuantizeJob(
        base=folder, out=folder, settings=settings, calibration=[], device="cpu", compute_dtype="float32", seed=0
    )


def gptq(**wanted: Any) -> gptqmodel_gptq.Settings:
    return gptqmodel_gptq.Settings.model_validate({"calibration": CALIBRATION, **wanted})


def awq(**wanted: Any) -> gptqmodel_awq.Settings:
    return gptqmodel_awq.Settings.model_validate({"calibration": CALIBRATION, **wanted})


@pytest.mark.parametrize(("config", "settings"), [("GPTQConfig", gptqmodel_gptq), ("AWQConfig", gptqmodel_awq)])
def test_every_field_of_the_library_is_a_setting_or_left_out_for_a_reason(config: str, settings: Any) -> None:
    from gptqmodel.quantization import config as library

    left_out = set().union(*LEFT_OUT.values()) | (NOT_FOR_AWQ if config == "AWQConfig" else set())
    theirs = {OURS.get(field.name, field.name) for field in fields(getattr(library, config))}
    expected = theirs - left_out - ({"format"} if config == "AWQConfig" else set())
    assert expected <= set(settings.Settings.model_fields)


def test_defaults_are_gptqmodels_own_but_for_the_damping_step_and_the_group_size(tiny_checkpoint: Path) -> None:
    from gptqmodel.quantization.config import GPTQConfig

    ours, theirs = gptqmodel_gptq.config(job(tiny_checkpoint, gptq())), GPTQConfig()
    different = {
        field.name
        for field in fields(GPTQConfig)
        if not field.name.startswith(("_", "offload_to_disk_path"))
        and getattr(ours, field.name) != getattr(theirs, field.name)
    }
    assert different == {"group_size", "damp_auto_increment", "fallback"}
    assert ours.fallback.strategy == theirs.fallback.strategy
    assert float(ours.fallback.threshold.rstrip("%")) == float(theirs.fallback.threshold.rstrip("%")) == 0.5


def test_gptq_settings_reach_the_config(tiny_checkpoint: Path) -> None:
    made = gptqmodel_gptq.config(
        job(
            tiny_checkpoint,
            gptq(
                bits=8,
                group_size=32,
                sym=False,
                desc_act=True,
                act_group_aware=False,
                static_groups=True,
                true_sequential=False,
                mse=2.4,
                damp_percent=0.1,
                damp_auto_increment=0.2,
                gptaq_alpha=0.3,
                foem_beta=0.2,
                format="gptq_v2",
                fallback="median",
                fallback_share=0.02,
                experts_per_token="all",
                skip_modules=["model.layers.1.mlp.up_proj"],
                dynamic={r".*\.down_proj": {"damp_percent": 0.3, "mse": 2.0}},
            ),
        )
    )
    assert (made.bits, made.group_size, made.sym, made.desc_act) == (8, 32, False, True)
    assert (made.act_group_aware, made.static_groups, made.true_sequential, made.mse) == (False, True, False, 2.4)
    assert (made.damp_percent, made.damp_auto_increment) == (0.1, 0.2)
    assert (made.foem.alpha, made.foem.beta, made.gptaq) == (0.3, 0.2, None)
    assert made.format == "gptq_v2"
    assert (made.fallback.strategy, float(made.fallback.threshold.rstrip("%"))) == ("median", 2.0)
    assert made.moe.routing.num_experts_per_tok == "all"
    assert made.dynamic_get("model.layers.1.mlp.up_proj") is False
    assert made.dynamic_get("model.layers.1.mlp.up_proj.x") is not False
    assert made.dynamic_get("model.layers.0.mlp.up_proj", "damp_percent", 0.1) == 0.1
    assert made.dynamic_get("model.layers.0.mlp.down_proj", "damp_percent", 0.1) == 0.3


def test_gptaq_alone_and_no_fallback(tiny_checkpoint: Path) -> None:
    made = gptqmodel_gptq.config(job(tiny_checkpoint, gptq(gptaq_alpha=0.25, fallback=None)))
    assert (made.gptaq.alpha, made.foem, made.fallback) == (0.25, None, None)


@pytest.mark.parametrize(("clip", "duo", "mib"), [(True, False, 1024), (False, True, 8)])
def test_awq_settings_reach_its_search(clip: bool, duo: bool, mib: int) -> None:
    made = SimpleNamespace()

    def plain(processor: Any, *, model: str) -> None:
        processor.apply_clip = processor.duo_scaling = processor.max_chunk_memory = model

    wanted = awq(clip_search=clip, duo_scaling=duo, search_memory_mib=mib)
    gptqmodel_awq.with_search(plain, wanted)(made, model="x")
    assert (made.apply_clip, made.duo_scaling, made.max_chunk_memory) == (clip, duo, mib * 2**20)


def test_what_awq_sets_is_what_its_processor_reads() -> None:
    import inspect

    from gptqmodel.looper.awq_processor import AWQProcessor

    source = inspect.getsource(AWQProcessor.__init__)
    for name in ("apply_clip", "duo_scaling", "max_chunk_memory"):
        assert f"self.{name} = " in source


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"desc_act": True}, "act_group_aware: true, its default, excludes desc_act: true; set one of them to false"),
        (
            {"static_groups": True},
            "act_group_aware: true, its default, excludes static_groups: true; set one of them to false",
        ),
        ({"group_size": -1}, "act_group_aware: true, its default, needs groups, but group_size is -1; set it to false"),
        (
            {"static_groups": True, "act_group_aware": False, "group_size": -1},
            "static_groups: true needs groups, but group_size is -1; set it to false",
        ),
        (
            {"damp_percent": 0.5, "damp_auto_increment": 0.1},
            "damp_retries: the last try would damp by 1, but it must stay under 1; lower damp_percent, damp_auto_",
        ),
        ({"skip_modules": ["up"]}, "skip_modules: no module 'up'; this model has down_proj, q_proj"),
        ({"skip_modules": ["q_proj", "down_proj"]}, "skip_modules: nothing is left to quantize; take some out"),
        ({"dynamic": {"(": {"mse": 2.0}}}, "dynamic.(: not a regular expression ("),
        ({"dynamic": {"up_proj": {}}}, "dynamic.up_proj: fits no quantized module; they are named like model.layers.0"),
        (
            {"dynamic": {".*": {"static_groups": True}}},
            "dynamic..*.act_group_aware: true, its default, excludes static_groups: true; set one of them to false",
        ),
        (
            {"desc_act": True, "act_group_aware": False, "dynamic": {".*": {"act_group_aware": True}}},
            "dynamic..*.act_group_aware: true, its default, excludes desc_act: true; set one of them to false",
        ),
    ],
)
def test_gptq_settings_that_do_not_go_together_are_told(wanted: dict[str, Any], problem: str) -> None:
    [found] = gptqmodel_gptq.check(gptq(**wanted), SMOLLM)
    assert found.startswith(problem)


def test_settings_that_go_together() -> None:
    for wanted in (
        {"desc_act": True, "act_group_aware": False},
        {"group_size": -1, "act_group_aware": False},
        {"static_groups": True, "act_group_aware": False},
        {"damp_percent": 0.5, "damp_retries": 0},
        {"skip_modules": ["q_proj"], "dynamic": {r".*down_proj": {"static_groups": True, "act_group_aware": False}}},
    ):
        assert gptqmodel_gptq.check(gptq(**wanted), SMOLLM) == []


def test_a_skipped_layer_needs_no_fitting_group_size() -> None:
    assert gptqmodel_gptq.check(gptq(group_size=512, skip_modules=["q_proj"]), SMOLLM) == []
    [problem] = gptqmodel_gptq.check(gptq(group_size=512), SMOLLM)
    assert problem.startswith("group_size 512 does not divide every layer: model.layers.0.self_attn.q_proj has 576")


def test_awq_groups_are_those_that_its_kernels_load() -> None:
    with pytest.raises(ValidationError):
        awq(group_size=256)


def test_layers_that_fell_back_are_told_in_the_order_of_the_layers() -> None:
    log = [
        {"layer": 1, "module": "mlp.up_proj", "loss": "rtn fallback", "samples": "3"},
        {"layer": 0, "module": "mlp.up_proj", "loss": "0.0123", "samples": "900"},
        {"layer": 11, "module": "mlp.up_proj", "loss": "median fallback", "samples": "0"},
    ]
    found = _gptqmodel.without_calibration(log, [f"model.layers.{n}.mlp.up_proj" for n in (0, 1, 11)])
    assert [(attempt.settings, attempt.failure) for attempt in found] == [
        (
            {"module": "model.layers.1.mlp.up_proj"},
            "only 3 calibration tokens reached it, so it got a plain rounding (rtn fallback)",
        ),
        (
            {"module": "model.layers.11.mlp.up_proj"},
            "only 0 calibration tokens reached it, so it got a plain rounding (median fallback)",
        ),
    ]


@pytest.mark.parametrize("wrong", [{"experts_per_token": 0}, {"experts_per_token": -3}, {"fallback_share": 0.0}])
def test_no_expert_at_all_and_no_token_at_all_are_refused(wrong: dict[str, Any]) -> None:
    """Of no tokens a Hessian is zero, and a share of 0 would never call that too few."""
    for settings in (gptq, awq):
        with pytest.raises(ValidationError, match="greater than"):
            settings(**wrong)
        assert settings(experts_per_token="all").experts_per_token == "all"


def test_what_gptqmodel_dropped_for_want_of_calibration_is_told_apart_from_what_was_skipped(
    tiny_checkpoint: Path,
) -> None:
    given = _gptqmodel.left_out(job(tiny_checkpoint, gptq(skip_modules=["down_proj"], fallback=None)))
    assert len(given) == 2
    assert _gptqmodel.uncalibrated(given, given) == []
    # As looper/stage_subset.py of GPTQModel 7.6 adds it.
    after = [*given, r"-:model\.layers\.1\.mlp\.experts\.3\.up\_proj", "+:.*o_proj"]
    assert _gptqmodel.uncalibrated(given, after) == ["model.layers.1.mlp.experts.3.up_proj"]


def test_a_ladder_of_some_layers_must_stay_in_range_too() -> None:
    ladder = {"damp_auto_increment": 0.05, "damp_retries": 2}
    fitting = gptq(dynamic={".*down_proj": {"damp_percent": 0.85}}, **ladder)
    assert gptqmodel_gptq.check(fitting, SMOLLM) == []
    [problem] = gptqmodel_gptq.check(gptq(dynamic={".*down_proj": {"damp_percent": 0.95}}, **ladder), SMOLLM)
    assert problem.startswith(
        "dynamic..*down_proj.damp_percent: the last try would damp by 1.05, but it must stay under"
    )
