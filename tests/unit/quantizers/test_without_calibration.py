"""The quantizers that need no calibration, with the real libraries: what they make loads, runs and is what they say."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from unit.quantizers.made import PROMPT, Made, Make, divergence

from pipeline import checkpoint
from pipeline.engines import EngineOptions
from pipeline.engines import transformers as engine
from pipeline.quantizers import QuantizeJob, torchao_fp8

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "nf4": ("bitsandbytes_nf4", {}),
    "nf4, plain scales": ("bitsandbytes_nf4", {"double_quantization": False}),
    "fp4": ("bitsandbytes_nf4", {"quant_type": "fp4"}),
    "rtn 8": ("rtn", {"bits": 8}),
    "rtn 4": ("rtn", {"bits": 4}),
    "rtn 4, uneven": ("rtn", {"bits": 4, "sym": False}),
    "rtn 3": ("rtn", {"bits": 3}),
    "rtn 2": ("rtn", {"bits": 2, "group_size": 32}),
    "int8": ("torchao_int8", {}),
    "int8, uneven": ("torchao_int8", {"sym": False}),
    "int8 weights": ("torchao_int8", {"activations": "none"}),
    "fp8 weights": ("torchao_fp8", {"activations": "none"}),
    "fp8 weights, one scale": ("torchao_fp8", {"activations": "none", "granularity": "tensor"}),
}
TABLES = ("g_idx", "quant_map", "bitsandbytes__nf4")
"""Ends of the names of what layers store beside weights and scales: little, but for layers as small as these."""
NOTHING = torch.empty(0)
KERNELS = {
    "nf4": {"Linear4bit": 14},
    "rtn 4": {"TorchAtenLinear": 14},
    "int8": {"Linear[Int8Tensor]": 14},
    "fp8 weights": {"Linear[Float8Tensor]": 14},
}
STORED = dict.fromkeys(("fp8 weights", "fp8 weights, one scale"), "bfloat16")
"""The type of the tensors left unquantized, where it is not the base's."""
SHARES = {"rtn 3": 0.7, "rtn 2": 1.0}
"""How much these may lose of what the base says, where it is more than a quarter."""
FALLBACKS = {"int8": set(), "int8 weights": {"Linear[Int8Tensor]"}, "fp8 weights": {"Linear[Float8Tensor]"}}


@pytest.fixture(scope="module")
def artifacts(make: Make) -> dict[str, Made]:
    """Filled by `artifact`, so that each kind is made once."""
    return {}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def artifact(kind: str, artifacts: dict[str, Made], make: Make) -> Made:
    if kind not in artifacts:
        quantizer, settings = KINDS[kind]
        artifacts[kind] = make(quantizer, **settings)
    return artifacts[kind]


def test_every_linear_of_the_blocks_is_quantized_and_nothing_else(kind: str, artifact: Made, base: Path) -> None:
    linears = {linear.name for linear in checkpoint.linears(base)}
    assert len(linears) == 14
    assert set(artifact.done.modules) == linears
    assert (artifact.done.at_load, artifact.done.attempts) == (None, ())
    left = {name for name in checkpoint.tensor_shapes(base) if name.removesuffix(".weight") not in linears}
    before, after = Made(base, artifact.done).tensors(), artifact.tensors()
    assert "model.embed_tokens.weight" in left
    assert not any(name.startswith("lm_head") for name in after)
    for name in left:
        assert str(after[name].dtype).removeprefix("torch.") == STORED.get(kind, "float16")
        assert bool((after[name] == before[name].to(after[name].dtype)).all()), name
    assert not left & {f"{name}.weight" for name in linears}
    kept = {name for name in linears if before[f"{name}.weight"].shape == after.get(f"{name}.weight", NOTHING).shape}
    assert not any(bool((after[f"{name}.weight"] == before[f"{name}.weight"]).all()) for name in kept)


def test_what_is_stored_loads_answers_and_says_nearly_what_the_base_says(kind: str, artifact: Made, base: Path) -> None:
    session = artifact.session()
    assert session.misplaced() == []
    kernels = session.info().kernels
    assert sum(kernels.values()) == 14
    assert kernels == KERNELS.get(kind, kernels)
    assert set(session.info().fallback_kernels) == FALLBACKS.get(kind, set(session.info().fallback_kernels))
    [answer] = session.generate([PROMPT], 6)
    assert 0 < len(answer.token_ids) <= 6
    exact = engine.load(base, EngineOptions("cpu", "bfloat16", 2)).next_token_logits(PROMPT)
    shuffled = exact[:, ::-1].copy()
    lost, all_of_it = (divergence(exact, logits) for logits in (session.next_token_logits(PROMPT), shuffled))
    assert lost < all_of_it * SHARES.get(kind, 0.25)


def test_fewer_bits_lose_more(artifacts: dict[str, Made], make: Make, base: Path) -> None:
    exact = engine.load(base, EngineOptions("cpu", "float32", 2)).next_token_logits(PROMPT)
    lost = []
    for kind in ("rtn 8", "rtn 4", "rtn 3", "rtn 2"):
        made = artifacts.get(kind) or make(KINDS[kind][0], **KINDS[kind][1])
        lost.append(divergence(exact, made.session("float32").next_token_logits(PROMPT)))
    assert lost == sorted(lost)
    assert lost[0] < 1e-3


def test_the_same_inputs_make_the_same_bytes(kind: str, artifact: Made, make: Make) -> None:
    quantizer, settings = KINDS[kind]
    assert make(quantizer, **settings).hashes() == artifact.hashes()


def test_the_bits_stored_are_those_of_the_method(artifacts: dict[str, Made], make: Make, base: Path) -> None:
    """A scale of 16 or 32 bits for 32 or 64 weights, and zero points, come on top."""
    weights = sum(linear.in_features * linear.out_features for linear in checkpoint.linears(base))
    limits = {"nf4": (4, 4.3), "nf4, plain scales": (4.4, 4.6), "rtn 2": (2, 2.8), "rtn 3": (3, 3.5), "int8": (8, 8.4)}
    for kind, (low, high) in limits.items():
        made = artifacts.get(kind) or make(KINDS[kind][0], **KINDS[kind][1])
        stored = sum(
            tensor.nbytes for name, tensor in made.tensors().items() if "_proj" in name and not name.endswith(TABLES)
        )
        assert low < 8 * stored / weights < high, kind


@pytest.mark.parametrize("kind", ["int8", "fp8 weights"], indirect=True)
def test_bytes_inside_wrappers_are_counted_as_they_are_stored(artifact: Made) -> None:
    session = artifact.session()
    stored = sum(tensor.nbytes for tensor in artifact.tensors().values())
    rotary = 2 * 4 * 16  # frequencies, which are computed
    assert stored < session.weight_bytes() <= stored + rotary
    assert session.decode_weight_bytes() == session.weight_bytes()  # the embedding is the head too


@pytest.mark.parametrize("kind", ["nf4", "nf4, plain scales"], indirect=True)
def test_the_scales_of_4_bit_weights_are_counted(artifact: Made, base: Path) -> None:
    session = artifact.session()
    linears = {f"{linear.name}.weight" for linear in checkpoint.linears(base)}
    weights = sum(math.prod(shape) for name, shape in checkpoint.tensor_shapes(base).items() if name in linears)
    others = sum(tensor.nbytes for name, tensor in artifact.tensors().items() if "_proj" not in name)
    beside = session.weight_bytes() - weights // 2 - others
    blocks, tables = weights // 64, 14 * (4 * 16 + 4 * 256 + 256) + 2 * 4 * 16
    assert blocks <= beside <= 4 * blocks + tables
    assert session.decode_weight_bytes() == session.weight_bytes()


@pytest.mark.parametrize("quantizer", ["bitsandbytes_nf4", "rtn", "torchao_int8"])
def test_modules_that_are_skipped_stay_as_they_are(make: Make, base: Path, quantizer: str) -> None:
    head = [] if quantizer == "rtn" else ["lm_head"]
    made = make(quantizer, skip_modules=[*head, "down_proj", "model.layers.0.self_attn.q_proj"])
    left = {"model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"}
    assert {linear.name for linear in checkpoint.linears(base)} - set(made.done.modules) == left
    before, after = Made(base, made.done).tensors(), made.tensors()
    assert all(bool((after[f"{name}.weight"] == before[f"{name}.weight"]).all()) for name in left)
    kernels = made.session().info().kernels
    assert (kernels["Linear"], sum(kernels.values())) == (3, 14)


def test_fp8_products_where_there_are_no_units_for_them_are_refused_in_words(make: Make) -> None:
    with pytest.raises(RuntimeError, match=r"^unsupported here: FP8 products need .* and this is a CPU; .*: none"):
        make("torchao_fp8")


@pytest.mark.parametrize(
    ("capable", "dtype", "granularity", "refused"),
    [
        (True, "bfloat16", "row", None),
        (True, "float16", "tensor", None),
        (True, "float16", "row", "compute_dtype is float16: set that to bfloat16, or settings.granularity to tensor"),
        (False, "bfloat16", "tensor", "and this is NVIDIA A100"),
    ],
)
def test_fp8_products_hang_on_the_gpu_and_the_type(
    base: Path, monkeypatch: pytest.MonkeyPatch, capable: bool, dtype: str, granularity: str, refused: str | None
) -> None:
    monkeypatch.setattr(pytest.importorskip("torchao.utils"), "is_sm_at_least_89", lambda: capable)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA A100")
    settings = torchao_fp8.Settings.model_validate({"granularity": granularity})
    job = QuantizeJob(base, base, settings, [], "cuda", dtype, 0)
    with pytest.raises(RuntimeError, match=refused) if refused else contextlib.nullcontext():
        torchao_fp8._require_fp8_units(job)
