from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.preflight.projects import CALIBRATION, PARAMS, complete, settings

from pipeline import checkpoint, params, preflight, store
from pipeline.params import Params
from pipeline.preflight import model


def test_a_workload_over_the_context_is_a_problem(project: Path) -> None:
    long = {"long": {"text": "text.txt", "prompt_tokens": 1021, "output_tokens": 4, "pairs": 5}}
    assert preflight.problems(
        params.parse(
            PARAMS | {"benchmark": PARAMS["benchmark"] | {"workloads": long | PARAMS["benchmark"]["workloads"]}}
        )
    ) == ["benchmark.workloads.long: 1021 prompt and 4 output tokens exceed the model's context of 1024"]


def with_fidelity(**changes: Any) -> Params:
    return params.parse(PARAMS | {"fidelity": PARAMS["fidelity"] | changes})


def test_a_window_over_the_context_is_a_problem(project: Path) -> None:
    complete(store.BASE, project / "model")
    assert preflight.problems(with_fidelity(tokens=4096, window_tokens=1024)) == []
    assert preflight.problems(with_fidelity(tokens=4096, window_tokens=1025)) == [
        "fidelity.window_tokens: 1025 exceeds the model's context of 1024"
    ]


def test_layers_of_a_model_from_elsewhere_are_checked_once_the_base_is_there(project: Path) -> None:
    wanted = params.parse(
        PARAMS
        | {"model": PARAMS["model"] | {"source": {"kind": "hub", "id": "a/b", "revision": "0" * 40}}}
        | {
            "variants": PARAMS["variants"]
            | {"int8": PARAMS["variants"]["int8"] | {"settings": {"skip_modules": ["x"]}}}
        }
    )
    assert preflight.problems(wanted) == []
    complete(store.BASE, project / "model")
    assert preflight.problems(wanted)[0].startswith("variants.int8.settings.skip_modules: no module 'x'")


def test_what_the_base_model_tells_is_told_at_once_when_it_is_there(project: Path) -> None:
    """Before the quantizers run, so also what the stage that tokenizes would tell after them."""
    hub = PARAMS["model"] | {"source": {"kind": "hub", "id": "a/b", "revision": "0" * 40}}
    long = {"short": PARAMS["benchmark"]["workloads"]["short"] | {"prompt_tokens": 1021}}
    int8 = PARAMS["variants"]["int8"] | {"settings": {"skip_modules": ["x"]}}
    wanted = settings({"int8": int8}, model=hub, benchmark=PARAMS["benchmark"] | {"workloads": long})
    complete(store.BASE, project / "model")
    layer, *_, context = preflight.after_base_problems(wanted)
    assert layer.startswith("variants.int8.settings.skip_modules: no module 'x'")
    assert context.startswith("benchmark.workloads.short: 1021 prompt and 4 output tokens exceed")


def test_layers_of_a_local_model_are_checked_before_anything_is_made(project: Path) -> None:
    bad = {
        "int4": PARAMS["variants"]["int4"] | {"settings": {"group_size": 512, "calibration": CALIBRATION}},
        "int8": PARAMS["variants"]["int8"] | {"settings": {"skip_modules": ["lm_haed"]}},
    }
    first, tied, second = preflight.problems(settings(bad))
    assert tied.startswith("variants.int8.settings.skip_modules: put lm_head in; it shares")
    assert first.startswith("variants.int8.settings.skip_modules: no module 'lm_haed'")
    assert second.startswith("variants.int4.settings.group_size 512 does not divide every layer: ")
    assert second.endswith("Sizes that would do: -1, 16, 32, 64, 128")


def test_an_architecture_that_transformers_lacks_is_a_problem(project: Path) -> None:
    path = project / "model" / "config.json"
    store.write_json(path, {**store.read_json(path), "model_type": "llamma"})
    found = model.layer_problems(settings())
    assert found == [
        "model: transformers has no causal language model of type 'llamma' (config.json, model_type); give another "
        "model, or install a transformers that has it",
        "variants.int4.settings.calibration: GPTQModel does not know the model type 'llamma' of config.json; quantize "
        "it by a method that needs no calibration, or with a later GPTQModel",
    ]


def served_on(devices: int, **wanted: Any) -> Params:
    int4 = PARAMS["variants"]["int4"] | {"settings": {"group_size": 64, "calibration": CALIBRATION, **wanted}}
    return settings({"int4": int4}, serving=PARAMS["serving"] | {"tensor_parallel": devices})


def test_devices_must_divide_heads_and_layers(project: Path) -> None:
    # The tiny model: width 128, 4 heads, feed-forward 256.
    assert model.layer_problems(served_on(2)) == []
    heads, shared, layers = model.layer_problems(served_on(3))
    assert heads == "serving.tensor_parallel: 3 does not divide the model's 4 attention heads"
    assert shared.startswith("serving.tensor_parallel: 3 neither divides the model's 2 key-value heads nor is a multi")
    assert layers.startswith("serving.tensor_parallel: 3 does not divide every layer: ")
    assert "model.layers.0.self_attn.o_proj has 128 input features" in layers
    assert "model.layers.0.self_attn.q_proj has 128 output features" in layers


def test_a_group_must_divide_the_shard_of_a_layer(project: Path) -> None:
    [problem] = model.layer_problems(served_on(4))
    # o_proj's 128 inputs are 32 on each device, down_proj's 256 are 64; those that split their output keep 128.
    assert problem == (
        "variants.int4.settings.group_size 64 does not divide every layer: model.layers.0.self_attn.o_proj has 128 "
        "input features, 32 on each of 4 devices. Sizes that would do: -1, 16, 32"
    )
    assert model.layer_problems(served_on(4, group_size=32)) == []


def changed_config(project: Path, **changes: Any) -> None:
    path = project / "model" / "config.json"
    store.write_json(path, {**store.read_json(path), **changes})


def test_a_model_whose_layers_cannot_be_told_is_said_to_be_that(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "linears", lambda folder: [])
    [problem] = model.layer_problems(settings())
    assert problem.startswith("model: its layers cannot be told from its tensors, since none is a matrix")


@pytest.mark.parametrize(
    ("heads", "kv_heads", "devices", "fits"), [(12, 3, 2, False), (12, 3, 6, True), (12, 3, 3, True), (12, 6, 4, False)]
)
def test_key_value_heads_are_split_among_devices_or_copied_to_them(
    project: Path, heads: int, kv_heads: int, devices: int, fits: bool
) -> None:
    changed_config(project, num_attention_heads=heads, num_key_value_heads=kv_heads)
    found = [problem for problem in model.layer_problems(served_on(devices)) if "heads" in problem]
    told = (
        f"serving.tensor_parallel: {devices} neither divides the model's {kv_heads} key-value heads nor is a multiple "
        "of them"
    )
    assert found == ([] if fits else [told])


def test_layers_of_copied_heads_need_not_be_divided(project: Path) -> None:
    """Of one head that is on all of 3 devices, the 64 outputs of k_proj are on each."""
    changed_config(project, num_attention_heads=3, num_key_value_heads=1)
    [uneven] = model.layer_problems(served_on(3))
    assert "k_proj" not in uneven
    assert "q_proj" in uneven


def test_a_check_that_breaks_is_told_with_its_place(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(settings: Any, base: Any) -> list[str]:
        return list(base.no_such_thing)

    monkeypatch.setattr("pipeline.quantizers.fp16.check", check)
    [problem] = preflight.problems(settings({}))
    assert problem == (
        "pipeline/quantizers/fp16.py: check fails for variants.fp16: AttributeError: 'ModelShape' object has no "
        f"attribute 'no_such_thing' (test_model.py, line {check.__code__.co_firstlineno + 1})"
    )


@pytest.mark.parametrize("returned", ["bits: too few", [1]])
def test_a_check_that_returns_no_list_of_texts_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch, returned: Any
) -> None:
    monkeypatch.setattr("pipeline.quantizers.fp16.check", lambda settings, base: returned)
    assert preflight.problems(settings({})) == [
        f"pipeline/quantizers/fp16.py: check must return a list of texts, got {returned!r} for variants.fp16"
    ]
