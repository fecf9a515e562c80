"""The GPTQModel quantizers on a tiny model: a Hessian that is not positive-definite, skipped layers, AWQ's search."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gptqmodel_side
import pytest

from pipeline import model_shape, store, supervise
from pipeline.engines import EngineOptions, transformers
from pipeline.quantizers import _gptqmodel

pytestmark = pytest.mark.e2e
SKIPPED = ["model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj", "model.layers.1.self_attn.q_proj"]
SKIP = {"skip_modules": ["down_proj", "model.layers.1.self_attn.q_proj"]}
LADDER = {"damp_percent": 0.05, "damp_auto_increment": 0.1}
CASES: dict[str, dict[str, Any]] = {
    "gptq": {"quantizer": "gptqmodel_gptq", "settings": {}},
    "gptq-skip": {"quantizer": "gptqmodel_gptq", "settings": SKIP},
    "gptq-asymmetric-v2": {"quantizer": "gptqmodel_gptq", "settings": {"format": "gptq_v2", "sym": False}},
    "gptq-static": {
        "quantizer": "gptqmodel_gptq",
        "settings": {"static_groups": True, "act_group_aware": False, "mse": 2.4, "batch_size": 4},
    },
    "ladder": {"quantizer": "gptqmodel_gptq", "settings": {**LADDER, "damp_retries": 2}, "spoil": 0.2},
    "awq": {"quantizer": "gptqmodel_awq", "settings": {}},
    "awq-skip": {"quantizer": "gptqmodel_awq", "settings": SKIP},
    "awq-no-clip": {"quantizer": "gptqmodel_awq", "settings": {"clip_search": False}},
    "awq-no-duo": {"quantizer": "gptqmodel_awq", "settings": {"duo_scaling": False}},
    "awq-first": {"quantizer": "gptqmodel_awq", "settings": {}, "first": list(range(40))},
    "awq-other-first": {"quantizer": "gptqmodel_awq", "settings": {}, "first": list(range(100, 140))},
}
BEYOND = {"quantizer": "gptqmodel_gptq", "settings": {**LADDER, "damp_retries": 1}, "spoil": 0.2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


def run(base: Path, folder: Path, cases: dict[str, dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, gptqmodel_side.__file__, base, folder, json.dumps(cases), folder / "result.json"],
        env={
            **os.environ,
            **_gptqmodel.ENVIRONMENT,
            "PYTHONPATH": str(Path(store.__file__).parents[1]),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def results(folder: Path, tiny_checkpoint: Path) -> dict[str, dict[str, Any]]:
    done = run(tiny_checkpoint, folder, CASES)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, Any]] = store.read_json(folder / "result.json")
    return found


def tensors(path: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return load_file(path / "model.safetensors")


def logits(path: Path) -> Any:
    session = transformers.load(path, EngineOptions(device="cpu", compute_dtype="float32", threads=1))
    return session.next_token_logits(list(range(5, 69)))


@pytest.fixture(scope="module")
def base_logits(tiny_checkpoint: Path) -> Any:
    return logits(tiny_checkpoint)


def test_a_layer_whose_hessian_is_not_positive_definite_climbs_the_ladder(results: dict[str, dict[str, Any]]) -> None:
    failure = "the Hessian is not positive-definite"
    assert results["ladder"]["attempts"] == [
        {"settings": {"module": gptqmodel_side.SPOILED, "damp_percent": 0.05}, "failure": failure},
        {"settings": {"module": gptqmodel_side.SPOILED, "damp_percent": 0.15}, "failure": failure},
        {"settings": {"module": gptqmodel_side.SPOILED, "damp_percent": 0.25}, "failure": None},
    ]
    assert len(results["ladder"]["modules"]) == 14
    assert results["gptq"]["attempts"] == []


def test_a_layer_beyond_the_ladder_ends_the_worker_with_its_name_as_last_words(
    tmp_path: Path, tiny_checkpoint: Path
) -> None:
    """GPTQModel's threads print an error and end the process; the supervisor makes its last words the reason."""
    done = run(tiny_checkpoint, tmp_path, {"beyond": BEYOND})
    assert done.returncode == 1
    assert supervise.last_words(done.stderr.splitlines()).startswith(
        f"RuntimeError: {gptqmodel_side.SPOILED}: the Hessian is not positive-definite at damp_percent 0.05, 0.15; "
    )


@pytest.mark.parametrize("name", CASES)
def test_the_artifact_answers_nearly_as_the_base(
    folder: Path, results: dict[str, dict[str, Any]], base_logits: Any, name: str
) -> None:
    import numpy as np

    assert name in results
    ours = logits(folder / name)
    assert np.linalg.norm(ours - base_logits) < 0.25 * np.linalg.norm(base_logits)
    assert not np.array_equal(ours, base_logits)


@pytest.mark.parametrize("name", ["gptq-skip", "awq-skip"])
def test_skipped_layers_keep_their_weights_and_engines_are_told(
    folder: Path, results: dict[str, dict[str, Any]], tiny_checkpoint: Path, name: str
) -> None:
    base, made = tensors(tiny_checkpoint), tensors(folder / name)
    for module in SKIPPED:
        assert made[f"{module}.weight"].tobytes() == base[f"{module}.weight"].tobytes()
    everything = {layer.name for layer in model_shape.read(tiny_checkpoint).linears}
    assert set(results[name]["modules"]) == everything - set(SKIPPED)
    config = store.read_json(folder / name / "config.json")["quantization_config"]
    told = {
        "gptq-skip": lambda: everything - set(config["modules_in_block_to_quantize"][0]),
        "awq-skip": lambda: set(config["modules_to_not_convert"]),
    }[name]()
    assert told == set(SKIPPED)


@pytest.mark.parametrize("name", ["awq-no-clip", "awq-no-duo"])
def test_awq_without_a_part_of_its_search_gives_other_weights(
    folder: Path, results: dict[str, dict[str, Any]], name: str
) -> None:
    assert store.sha256_file(folder / name / "model.safetensors") != store.sha256_file(
        folder / "awq" / "model.safetensors"
    )


def test_awq_is_calibrated_on_every_sample_where_their_lengths_differ(
    folder: Path, results: dict[str, dict[str, Any]]
) -> None:
    assert results["awq-first"]["modules"] == results["awq-other-first"]["modules"]
    assert store.sha256_file(folder / "awq-first" / "model.safetensors") != store.sha256_file(
        folder / "awq-other-first" / "model.safetensors"
    )


@pytest.fixture(scope="module")
def experts(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mixture of four experts whose router finds all alike, so that every token goes to one of them."""
    import torch
    from transformers import MixtralConfig, MixtralForCausalLM

    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path_factory.mktemp("experts") / "base"))
    config = MixtralConfig(
        vocab_size=512,
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=1,
        max_position_embeddings=1024,
    )
    torch.manual_seed(0)
    model = MixtralForCausalLM(config)
    for name, parameter in model.named_parameters():
        if name.endswith("gate.weight"):
            torch.nn.init.zeros_(parameter)
    model.to(torch.float16).save_pretrained(folder)
    return folder


def test_without_a_fallback_experts_that_no_token_reached_are_an_error_that_names_them(
    tmp_path: Path, experts: Path
) -> None:
    """GPTQModel itself leaves them unquantized and says so in its log."""
    done = run(experts, tmp_path, {"none": {"quantizer": "gptqmodel_gptq", "settings": {"fallback": None}}})
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("RuntimeError: no calibration tokens reached model.layers.0.")
    assert "experts." in last
    assert "and 6 more, so GPTQModel would leave them unquantized; give more calibration samples" in last
