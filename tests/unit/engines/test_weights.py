"""Weights that no healthy model has, found in models of torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.engines import EngineOptions
from pipeline.engines import _transformers_weights as weights
from pipeline.engines.transformers import TransformersSession


def model(**tensors: Any) -> Any:
    """A module with these tensors as buffers that are saved, as packed formats hold their weights."""
    import torch

    made = torch.nn.Module()
    for name, tensor in tensors.items():
        made.register_buffer(name, tensor)
    return made


def test_a_sound_model_has_none(session: TransformersSession) -> None:
    assert session.broken_weights() == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_one_value_that_is_no_number_is_found_wherever_it_stands(
    value: float, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(weights, "PART", 4)
    for place in range(12):
        tensor = torch.ones(12, dtype=getattr(torch, dtype))
        tensor[place] = value
        assert weights.broken(model(scale=tensor, other=torch.ones(2, 2))) == {"scale": "NaN or infinity"}


def test_eight_bit_floats_are_looked_at_too() -> None:
    import torch

    tensor = torch.tensor([[1.0, float("nan")]]).to(torch.float8_e4m3fn)
    assert weights.broken(model(weight=tensor)) == {"weight": "NaN or infinity"}


def test_a_matrix_of_zeros_is_found_but_for_one_other_value(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(weights, "PART", 4)
    assert weights.broken(model(weight=torch.zeros(4, 4))) == {"weight": "nothing but zeros"}
    for place in (0, 7, 15):
        tensor = torch.zeros(4, 4)
        tensor.view(-1)[place] = 1e-6
        assert weights.broken(model(weight=tensor)) == {}


def test_zeros_of_a_bias_and_of_integers_are_nothing_odd() -> None:
    import torch

    found = model(bias=torch.zeros(8), g_idx=torch.zeros(8, dtype=torch.int32), qzeros=torch.zeros(2, 2).int())
    assert weights.broken(found) == {}


def test_zero_points_of_a_symmetric_format_may_be_floats() -> None:
    import torch

    assert weights.broken(model(qzeros=torch.zeros(4, 4))) == {}


def test_what_is_not_saved_is_not_looked_at() -> None:
    """Masks of minus infinity that a model computes itself are not weights."""
    import torch

    made = model(weight=torch.ones(2, 2))
    made.register_buffer("mask", torch.full((2, 2), float("-inf")), persistent=False)
    assert weights.broken(made) == {}


def test_an_empty_tensor_is_neither() -> None:
    import torch

    assert weights.broken(model(weight=torch.empty(0, 4))) == {}


def test_an_error_before_weights_are_tied_is_not_taken_for_a_missing_head(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import PreTrainedModel

    from pipeline.engines import transformers

    def fail(*_: object, **__: object) -> None:
        raise ValueError("no room for what is missing")

    monkeypatch.setattr(PreTrainedModel, "_initialize_missing_keys", fail)
    with pytest.raises(ValueError, match=r"^no room for what is missing$"):
        transformers.load(tiny_checkpoint, EngineOptions("cpu", "float32", 1))
