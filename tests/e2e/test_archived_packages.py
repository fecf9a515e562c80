"""The archived packages themselves, in their own environment, on tiny models; the artifacts are read by this one.

Skipped where that environment is not installed. QUANTGATE_TEST_TOOLCHAINS=1 makes it, gigabytes included.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
import toolchain_side
from tiny_project import ROOT
from unit.runs.jobs import base_job, quantize_job
from unit.workspace import calibration_set, document

from pipeline import calibration, checkpoint, store
from pipeline.artifact_records import QuantizeRecord
from pipeline.calibration import CalibrationSettings
from pipeline.engines import EngineOptions, Session, transformers
from pipeline.quantizers import auto_gptq, autoawq
from pipeline.runs import base
from pipeline.tokenizer import Tokenizer

pytestmark = pytest.mark.e2e

CALIBRATION = {"set": "plain", "samples": 6, "max_tokens": 96, "seed": 0}
LAYERS = 2
NEAR = 0.6
"""Of logits, relative to the base's; those of garbage differ by more than 1."""
LINEARS = 7 * LAYERS
NORMS = ("input_layernorm", "post_attention_layernorm")
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
"""Of the eight columns packed into one 32-bit word, the one in each four bits (AutoAWQ, awq/modules/linear/gemm.py)."""
TOKENS = [5, 99, 300, 17, 255, 64, 128, 400, 33, 7, 211, 350, 12, 80, 90, 450]


@pytest.fixture(scope="module")
def python() -> Path:
    return toolchain_side.interpreter(autoawq.TOOLCHAIN)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    folder = tmp_path_factory.mktemp("archived")
    shutil.copytree(tiny_checkpoint, folder / "model")
    enlarge_some_channels(folder / "model" / "model.safetensors")
    calibration_set(folder, [document(number) for number in range(8)])
    with contextlib.chdir(folder):
        base.run(base_job())
    return folder


def enlarge_some_channels(path: Path) -> None:
    """Every sixteenth input of each layer gets larger weights, as in real models; random ones are all alike."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(path)
    for name, tensor in tensors.items():
        if ".layers." in name and tensor.dim() == 2:
            tensor[:, ::16] *= 8
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.fixture(scope="module")
def gptq(python: Path, project: Path) -> Made:
    return make(python, project, "auto_gptq")


@pytest.fixture(scope="module")
def awq(python: Path, project: Path) -> Made:
    return make(python, project, "autoawq", clip_search=False)


class Made:
    """An artifact, kept from the next one, and what its making told."""

    def __init__(self, folder: Path, record: QuantizeRecord, scales: list[Any]) -> None:
        from safetensors.torch import load_file

        self.folder = folder
        self.record = record
        self.scales = scales
        self.tensors: dict[str, Any] = load_file(folder / "model.safetensors")


def side(python: Path, *arguments: object, folder: Path) -> str:
    """Run tests/archived_side.py under the toolchain's Python; returns what it prints."""
    # Another one each time: what comes out must not depend on the order of a set.
    seed = str(len(list(folder.glob("made-*"))) + 1)
    return toolchain_side.run(python, folder, ROOT / "tests" / "archived_side.py", *arguments, PYTHONHASHSEED=seed)


def make(python: Path, project: Path, quantizer: str, whose: str = "ours", **settings: Any) -> Made:
    job, result, scales, out = (project / name for name in ("job.json", "result.json", "scales.json", "variant"))
    wanted = quantize_job(quantizer, group_size=64, calibration=CALIBRATION, **settings)
    artifact = project / store.artifact(wanted.variant)
    artifact.mkdir(parents=True)
    job.write_text(wanted.model_dump_json())
    told = side(python, "quantize", job, result, scales, whose, folder=project)
    answer = store.read_json(result)
    assert "record" in answer, (answer, told[-3000:])
    kept = artifact.rename(out.with_name(f"made-{len(list(project.glob('made-*')))}"))
    return Made(kept, QuantizeRecord.model_validate(answer["record"]), store.read_json(scales))


def base_tensors(project: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    found: dict[str, Any] = load_file(project / store.BASE / "model.safetensors")
    return found


# --- what both make --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["gptq", "awq"])
def test_the_artifact_holds_packed_linears_and_else_the_base_s_tensors(
    package: str, project: Path, request: pytest.FixtureRequest
) -> None:
    made, before = request.getfixturevalue(package), base_tensors(project)
    parts = ("qweight", "qzeros", "scales", *(["g_idx"] if package == "gptq" else []))
    modules = [layer.name for layer in checkpoint.linears(project / store.BASE)]
    assert len(modules) == LINEARS
    kept = before.keys() - {f"{module}.weight" for module in modules}
    # No zero biases, and no copy of the embedding under the lm_head's name.
    assert made.tensors.keys() == kept | {f"{module}.{part}" for module in modules for part in parts}
    assert made.record.quantized_modules == sorted(modules)
    assert made.record.unquantized_modules == []
    same = [name for name in kept if package == "gptq" or not name.removesuffix(".weight").endswith(NORMS)]
    assert len(same) >= 2
    for name in same:
        assert bool((made.tensors[name] == before[name]).all()), name
    floats = {str(tensor.dtype) for tensor in made.tensors.values() if tensor.is_floating_point()}
    assert floats == {"torch.float16"}


@pytest.mark.parametrize("package", ["gptq", "awq"])
def test_the_config_is_the_base_s_own_with_the_quantization(
    package: str, project: Path, request: pytest.FixtureRequest
) -> None:
    config = checkpoint.config(request.getfixturevalue(package).folder)
    quantization = config.pop("quantization_config")
    assert config == checkpoint.config(project / store.BASE)
    assert (quantization["quant_method"], quantization["bits"], quantization["group_size"]) == (package, 4, 64)
    assert "is_marlin_format" not in quantization


@pytest.mark.parametrize("package", ["gptq", "awq"])
def test_the_engine_reads_it_and_comes_near_the_base(
    package: str, project: Path, request: pytest.FixtureRequest
) -> None:
    made = request.getfixturevalue(package)
    session = load(made.folder)
    assert sum(session.info().kernels.values()) == LINEARS
    assert all(name.startswith("TorchAten") for name in session.info().kernels)
    wanted = load(project / store.BASE).next_token_logits(TOKENS)
    assert relative_error(session.next_token_logits(TOKENS), wanted) < NEAR


@pytest.mark.parametrize(("quantizer", "settings"), [("auto_gptq", {"desc_act": True}), ("autoawq", {})])
def test_equal_inputs_and_seed_give_equal_artifacts(
    quantizer: str, settings: Mapping[str, Any], python: Path, project: Path
) -> None:
    one, other = (make(python, project, quantizer, **settings) for _ in range(2))
    assert one.record.artifact_sha256 == other.record.artifact_sha256
    found, wanted = (load(place).next_token_logits(TOKENS) for place in (one.folder, project / store.BASE))
    assert relative_error(found, wanted) < NEAR


def load(artifact: Path) -> Session:
    return transformers.load(artifact, EngineOptions(device="cpu", compute_dtype="float32", threads=1))


def relative_error(found: Any, wanted: Any) -> float:
    return float(numpy.linalg.norm(found - wanted) / numpy.linalg.norm(wanted))


def test_samples_are_tokenized_as_in_the_main_environment(gptq: Made, awq: Made, project: Path) -> None:
    with contextlib.chdir(project):
        wanted = calibration.tokenize(CalibrationSettings.model_validate(CALIBRATION), Tokenizer(store.BASE)).use
    assert gptq.record.calibration == awq.record.calibration == wanted


# --- autoawq's search ------------------------------------------------------------------------------------------


def test_awq_changes_weights_by_the_recorded_scales_and_half_a_step_only(awq: Made, project: Path) -> None:
    assert len(awq.scales) == LAYERS
    assert damage(awq, base_tensors(project)) < 0.56


def test_autoawq_s_own_quantizer_damages_the_weights_on_a_cpu(python: Path, project: Path) -> None:
    plain = make(python, project, "autoawq", "library", clip_search=False)
    assert damage(plain, base_tensors(project)) > 5


def damage(made: Made, before: Mapping[str, Any]) -> float:
    """The largest difference of a weight from the base's, times its recorded scales, in quantization steps.

    Rounding to nearest, zero points included, makes up 0.5 of it, and float16 arithmetic a little more. Norms must be
    the base's over the scales but for float16, or they count as infinitely far.
    """
    wanted = {name: tensor.float().clone() for name, tensor in before.items()}
    for number, applied in enumerate(made.scales):
        for previous, layers, values in applied:
            scale = wanted["model.norm.weight"].new_tensor(values)
            earlier = f"model.layers.{number}.{previous}.weight"
            wanted[earlier] /= scale if wanted[earlier].dim() == 1 else scale[:, None]
            for layer in layers:
                wanted[f"model.layers.{number}.{layer}.weight"] *= scale
    for name in before:
        if name in made.tensors and not made.tensors[name].float().allclose(wanted[name], rtol=1e-3, atol=0):
            return float("inf")
    steps = [steps_off(made.tensors, module, wanted[f"{module}.weight"]) for module in made.record.quantized_modules]
    return max(steps)


def steps_off(tensors: Mapping[str, Any], module: str, wanted: Any) -> float:
    """Largest difference of a packed module's weights from `wanted` [out, in], in steps of its quantization."""
    scales = tensors[f"{module}.scales"].float()
    codes, zeros = unpack(tensors[f"{module}.qweight"]), unpack(tensors[f"{module}.qzeros"])
    group = codes.shape[0] // scales.shape[0]
    step = scales.repeat_interleave(group, 0)
    found = (codes - zeros.repeat_interleave(group, 0)) * step
    return float(((found - wanted.t()).abs() / step).max())


def unpack(words: Any) -> Any:
    """Eight 4-bit numbers of each word, in autoawq's order of columns: [rows, 8 × columns]."""
    import torch

    fields = (words[:, :, None] >> torch.arange(0, 32, 4)) & 15
    columns = torch.empty_like(fields)
    columns[:, :, AWQ_ORDER] = fields
    return columns.flatten(1)


# --- the base in transformers 4 --------------------------------------------------------------------------------

ROPE = {
    "plain": {"rope_type": "default", "rope_theta": 100000.0},
    "scaled": {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8,
    },
    "linear": {"rope_type": "linear", "rope_theta": 20000.0, "factor": 2.0},
    "long": {
        "rope_type": "longrope",
        "rope_theta": 30000.0,
        "short_factor": [1.0] * 8,
        "long_factor": [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5],
        "original_max_position_embeddings": 64,
    },
    "partial": {"rope_type": "default", "rope_theta": 30000.0, "partial_rotary_factor": 0.5},
}
SHAPE = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 256,
    # Of the tiny vocabulary, which the models' own are not.
    **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 0),
}


@pytest.mark.parametrize(
    ("model_type", "rope"),
    [
        *(("llama", "plain"), ("llama", "scaled"), ("llama", "linear"), ("mistral", "plain"), ("qwen2", "plain")),
        *(
            ("qwen3", "plain"),
            ("gemma", "plain"),
            ("stablelm", "partial"),
            ("gpt_neox", "partial"),
            ("phi3", "partial"),
        ),
    ],
)
def test_transformers_4_gets_the_same_model_from_what_it_is_handed(
    model_type: str, rope: str, python: Path, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **SHAPE, **({"rope_parameters": ROPE[rope]} if rope in ROPE else {}))
    # Weights so large that attention, and with it each token's place, decides what comes out.
    model = AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4 if parameter.dim() == 2 else 1)
    model.half().save_pretrained(tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float32)
    with torch.no_grad():
        wanted = model(torch.tensor([TOKENS])).logits[0].numpy()
    side(python, "logits", tmp_path / "base", json.dumps(TOKENS), tmp_path / "logits.npy", folder=tmp_path)
    assert relative_error(numpy.load(tmp_path / "logits.npy"), wanted) < 1e-4


def test_the_model_types_are_those_that_the_packages_know(python: Path, tmp_path: Path) -> None:
    known = json.loads(side(python, "known_model_types", folder=tmp_path).splitlines()[-1])
    assert known == {"auto_gptq": sorted(auto_gptq.MODEL_TYPES), "autoawq": sorted(autoawq.MODEL_TYPES)}
