"""Sensitivities of a tiny model by the real engine, whose artifact is damaged or rescaled by hand."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from unit.runs.artifacts import Tensors, change
from unit.runs.jobs import DTYPES, quantize_job

from pipeline import checkpoint, model_shape, records, store
from pipeline.engines import EngineOptions, transformers
from pipeline.quality_records import FidelityText
from pipeline.runs import quantize, sensitivity
from pipeline.sensitivity_records import Group, Proposal

UP = "model.layers.1.mlp.up_proj"
UP_PART = ["model.layers.1.mlp.gate_proj", UP]


def block_parts(layer: int) -> list[list[str]]:
    attention, mlp = f"model.layers.{layer}.self_attn", f"model.layers.{layer}.mlp"
    return [
        [f"{attention}.{name}_proj" for name in "qkv"],
        [f"{attention}.o_proj"],
        [f"{mlp}.gate_proj", f"{mlp}.up_proj"],
        [f"{mlp}.down_proj"],
    ]


def job(**changes: Any) -> sensitivity.Job:
    fields: dict[str, Any] = {
        "variant": "one",
        "device": "cpu",
        "compute_dtype": DTYPES,
        "threads": 1,
        "tokens": 64,
        "budget_bytes": 0,
        "known": None,
    }
    return sensitivity.Job(**(fields | changes))


def call_quantized(folder: Path) -> None:
    """As if the artifact's layers had been quantized: their weights stay what they are."""
    manifest = checkpoint.read_manifest(folder)
    names = [layer.name for layer in model_shape.read(folder).linears]
    records.save(folder / store.MANIFEST, manifest.model_copy(update={"quantized_modules": sorted(names)}))


def spoil(folder: Path, module: str, by: float = 0.5) -> None:
    def worse(tensors: Tensors) -> None:
        import torch

        torch.manual_seed(0)
        weight = tensors[f"{module}.weight"]
        weight += by * weight.float().std() * torch.randn(weight.shape)

    change(folder, worse)
    call_quantized(folder)


def modules(groups: Sequence[Group]) -> list[list[str]]:
    return [group.modules for group in groups]


@pytest.fixture
def int8(project: Path) -> Path:
    """An artifact of bitsandbytes instead of the fp16 one."""
    folder = store.artifact("one")
    shutil.rmtree(folder)
    folder.mkdir()
    quantize.run(quantize_job("bitsandbytes_int8"))
    return folder


def found(**changes: Any) -> Proposal:
    """Measured, and as JSON that is read again."""
    return Proposal.model_validate_json(sensitivity.run(job(**changes)).model_dump_json())


def test_a_layer_made_worse_by_hand_is_found_and_nothing_else(artifact: Path) -> None:
    spoil(artifact, UP)
    proposal = found()
    measured = proposal.sensitivity
    assert modules(measured.groups) == [*block_parts(0), *block_parts(1)], "parts that read one input, in order"
    loses = {group.modules[-1]: group.kld for group in measured.groups if group.kld > 1e-6}
    assert list(loses) == [UP]
    assert measured.kld == pytest.approx(loses[UP], rel=1e-3), "in float32 there is nothing else"
    assert measured.positions == 64
    assert proposal.kld_none_kept == pytest.approx(loses[UP], rel=1e-3)
    # In an fp16 artifact it costs nothing to keep it.
    assert modules(proposal.kept) == [UP_PART]
    assert proposal.kld_kept < 1e-6


def test_what_a_quantizer_made_and_a_hand_made_worse(int8: Path) -> None:
    """The real library's packed weights: one layer's scales are each off by a half, more or less."""

    def worse(tensors: Tensors) -> None:
        import torch

        torch.manual_seed(0)
        scales = tensors[f"{UP}.SCB"]
        scales *= 1 + 0.5 * torch.randn(scales.shape)

    change(int8, worse)
    extra = 128 * 256 - 4 * 256
    proposal = found(budget_bytes=2 * extra + 20)
    measured = proposal.sensitivity
    worst, *others = sorted(measured.groups, key=lambda group: -group.kld)
    assert worst.modules == UP_PART
    assert worst.kld > 20 * others[0].kld > 0
    assert measured.kld == pytest.approx(proposal.kld_none_kept, rel=0.2)
    assert sum(group.kld for group in measured.groups) == pytest.approx(measured.kld, rel=0.3)
    # Two matrices of 256 × 128 bytes, each with a scale of 4 bytes and a byte for its layout's name.
    assert 2 * extra - 20 <= worst.extra_bytes <= 2 * extra + 20
    assert modules(proposal.kept) == [UP_PART]
    assert proposal.kld_kept < 0.1 * proposal.kld_none_kept


def test_what_was_measured_before_is_taken_and_only_the_choice_is_made_anew(artifact: Path) -> None:
    spoil(artifact, UP)
    measured = found().sensitivity
    groups = [group.model_copy(update={"kld": 1.0, "extra_bytes": 10}) for group in measured.groups]
    known = measured.model_copy(update={"groups": groups})
    nothing, all_but_one = found(known=known), found(known=known, budget_bytes=79)
    assert nothing.sensitivity == all_but_one.sensitivity == known
    assert nothing.kept == []
    assert nothing.kld_kept == nothing.kld_none_kept > 0
    assert all_but_one.kept == groups[:-1]
    assert all_but_one.kld_kept < 1e-6, "the spoiled part is kept, and put back"


def test_scales_that_a_method_moved_into_the_norms_make_the_block_the_part(artifact: Path) -> None:
    """As AWQ does: the same function by other weights."""

    def move(tensors: Tensors) -> None:
        for layer in (0, 1):
            tensors[f"model.layers.{layer}.input_layernorm.weight"] /= 2
            for name in "qkv":
                tensors[f"model.layers.{layer}.self_attn.{name}_proj.weight"] *= 2

    change(artifact, move)
    call_quantized(artifact)
    groups = found().sensitivity.groups
    assert modules(groups) == [[name for part in block_parts(layer) for name in part] for layer in (0, 1)]
    assert all(group.kld < 1e-6 for group in groups), "norm and matrices are taken over together"


def pair(moved: bool) -> tuple[Any, Any]:
    """A base and a variant whose layers differ in weight and bias, and where scales were moved in the norm too."""
    import torch

    def model(scale: float, norm: float) -> Any:
        torch.manual_seed(0)
        block = torch.nn.ModuleDict({"linear": torch.nn.Linear(5, 3), "norm": torch.nn.RMSNorm(5)})
        with torch.no_grad():
            for tensor in block["linear"].parameters():
                tensor.mul_(scale)
            block["norm"].weight.mul_(norm)
        made = torch.nn.ModuleDict({"model": torch.nn.ModuleDict({"layers": torch.nn.ModuleList([block])})})
        made.dtype = torch.float32
        return made

    return model(1, 1), model(3, 0.5 if moved else 1)


@pytest.mark.parametrize("moved", [False, True])
def test_a_swap_is_undone_and_takes_bias_and_norm_along_only_where_scales_were_moved(moved: bool) -> None:
    import torch

    base, variant = pair(moved)
    name = "model.layers.0.linear"
    swap = sensitivity.Swap(base, variant, [name])
    before = {key: tensor.clone() for key, tensor in base.state_dict().items()}
    with swap.lent([name]):
        inside = {key: tensor.clone() for key, tensor in base.state_dict().items()}
    theirs = variant.state_dict()
    expected = theirs if moved else {**before, f"{name}.weight": theirs[f"{name}.weight"]}
    for key, tensor in expected.items():
        torch.testing.assert_close(inside[key], tensor)
    assert all(torch.equal(base.state_dict()[key], tensor) for key, tensor in before.items())


def test_a_module_of_the_checkpoint_that_the_model_does_not_have_is_named() -> None:
    with pytest.raises(ValueError, match="1 quantized modules are not in the loaded model, the first of them other"):
        sensitivity.Swap(*pair(False), ["model.layers.0.linear", "other"])


def test_a_large_bias_does_not_cost_the_weights_their_digits() -> None:
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(2100, 4, dtype=torch.bfloat16)
    with torch.no_grad():
        layer.bias.fill_(1000.0)
        weight = sensitivity.effective_weight(layer, torch.bfloat16)
        bias = sensitivity.effective_bias(layer, torch.bfloat16)
    assert torch.equal(weight, layer.weight)
    assert torch.equal(bias, layer.bias)
    assert bool((bias == 1000).all())


@pytest.mark.parametrize(
    ("tokens", "shape", "first"),
    [(40, (1, 40), [0]), (128, (1, 128), [0]), (300, (2, 128), [0, 2000]), (10**6, (4, 128), [0, 1000, 2000, 3000])],
)
def test_the_text_is_the_beginnings_of_windows_all_over_it(
    tokens: int, shape: tuple[int, int], first: list[int]
) -> None:
    windows = [list(range(start, start + 512)) for start in (0, 1000, 2000, 3000)] + [[1, 2]]
    found = sensitivity.rows(windows, tokens)
    assert (len(found), *{len(row) for row in found}) == shape
    assert [row[0] for row in found] == first


def test_windows_shorter_than_a_row_are_taken_whole() -> None:
    assert sensitivity.rows([[1, 2, 3], [4, 5, 6], [7]], 100) == [[1, 2, 3], [4, 5, 6]]


def test_kld_is_that_of_the_fidelity_stage(artifact: Path) -> None:
    """The same figure by the numpy code that the report's KLD comes from."""
    import numpy

    from pipeline.metrics import divergence

    spoil(artifact, UP)
    windows = records.load(store.FIDELITY_PROMPT, FidelityText).windows[:2]
    options = EngineOptions("cpu", "float32", 1)
    base, variant = (transformers.load(folder, options) for folder in (store.BASE, artifact))
    kld = [
        divergence.compare(base.next_token_logits(window), variant.next_token_logits(window), [*window[1:], 0]).kld
        for window in windows
    ]
    compared = sensitivity.Compared(base.model, windows)
    assert compared.kld(variant.model) == pytest.approx(float(numpy.concatenate(kld).mean()), rel=1e-3)
    assert compared.kld(base.model) == 0


def test_kld_is_from_the_base_to_the_other_in_nats() -> None:
    import torch

    class Fixed:
        """Answers two rows of two tokens each with these odds."""

        device = "cpu"

        def __init__(self, *odds: float) -> None:
            self.logits = torch.tensor(odds).log().expand(2, 2, len(odds))

        def __call__(self, **_: Any) -> Any:
            return self

    compared = sensitivity.Compared(Fixed(0.5, 0.5), [[0, 1], [1, 0]])
    # 0.5 · ln(0.5 / 0.9) + 0.5 · ln(0.5 / 0.1); the other way round it would be 0.368.
    assert compared.kld(Fixed(0.9, 0.1)) == pytest.approx(0.5108256, rel=1e-5)
    assert compared.positions == 4


def test_logits_that_are_no_numbers_are_an_error(artifact: Path) -> None:
    change(artifact, lambda tensors: tensors[f"{UP}.weight"].fill_(float("nan")))
    call_quantized(artifact)
    with pytest.raises(ValueError, match="not finite numbers"):
        sensitivity.run(job())
