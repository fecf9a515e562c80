"""Artifacts of each format that lack tensors, or hold what is no number, with the real libraries."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from unit.quantizers.made import Made, Make

DOWN = "model.layers.1.mlp.down_proj"
KINDS = ("bitsandbytes_int8", "bitsandbytes_nf4", "rtn")
Edit = Callable[[dict[str, torch.Tensor]], None]


@pytest.fixture(scope="module")
def artifacts(make: Make) -> dict[str, Made]:
    return {kind: make(kind) for kind in KINDS}


def edited(made: Made, out: Path, edit: Edit) -> Made:
    shutil.copytree(made.folder, out)
    tensors = load_file(out / "model.safetensors")
    edit(tensors)
    save_file(tensors, out / "model.safetensors", {"format": "pt"})
    return replace(made, folder=out)


def without(begin: str) -> Edit:
    def edit(tensors: dict[str, torch.Tensor]) -> None:
        dropped = [name for name in tensors if name.startswith(begin)]
        assert dropped
        for name in dropped:
            del tensors[name]

    return edit


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_layer_that_is_missing_is_named(artifacts: dict[str, Made], kind: str, tmp_path: Path) -> None:
    """Kernels pack at random what transformers made up, and fail on it, before it tells what was missing."""
    with pytest.raises(ValueError, match=rf"the checkpoint is not whole: missing keys .*{DOWN}"):
        edited(artifacts[kind], tmp_path / "out", without(DOWN)).session()


@pytest.mark.parametrize(("kind", "part"), [("rtn", "scales"), ("rtn", "g_idx"), ("rtn", "qweight")])
def test_a_part_of_a_packed_layer_that_is_missing_is_named(
    artifacts: dict[str, Made], kind: str, part: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=rf"missing keys {DOWN}\.{part}$"):
        edited(artifacts[kind], tmp_path / "out", without(f"{DOWN}.{part}")).session()


def test_a_scale_that_is_no_number_is_named(artifacts: dict[str, Made], tmp_path: Path) -> None:
    """bitsandbytes holds those of INT8 neither as parameters nor as buffers."""

    def edit(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"{DOWN}.SCB"][3] = float("inf")

    whole, broken = artifacts["bitsandbytes_int8"], edited(artifacts["bitsandbytes_int8"], tmp_path / "out", edit)
    assert whole.session().broken_weights() == {}
    assert broken.session().broken_weights() == {f"{DOWN}.SCB": "NaN or infinity"}
