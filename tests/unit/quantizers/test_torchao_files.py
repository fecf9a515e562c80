"""The order of a torchao file's metadata, which differs from process to process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pipeline.quantizers import _torchao

TENSORS = {"b._weight_qdata": torch.arange(40), "ä._weight_scale": torch.ones(3)}


def written(path: Path, names: list[str], entries: list[str]) -> Path:
    """A file whose parts and entries were told in these orders."""
    weight = json.dumps({"_type": "Int8Tensor", "_tensor_data_names": names})
    values = {"b.weight": weight, "norm.weight": json.dumps({"_type": "Tensor"}), "tensor_names": json.dumps(["b"])}
    save_file(TENSORS, path, {entry: values[entry] for entry in entries})
    return path


@pytest.mark.parametrize("entries", [["b.weight", "norm.weight", "tensor_names"], ["tensor_names", "b.weight"]])
def test_any_order_becomes_the_same_bytes_and_says_the_same(tmp_path: Path, entries: list[str]) -> None:
    first = written(tmp_path / "1", ["qdata", "scale", "zero_point"], entries)
    second = written(tmp_path / "2", ["zero_point", "qdata", "scale"], entries[::-1])
    size = first.stat().st_size
    for path in (first, second):
        _torchao._sort_metadata(path)
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size == size
    with safe_open(second, "pt") as file:
        assert set(file.metadata()) == set(entries)
        told = json.loads(file.metadata()["b.weight"])
        assert told == {"_type": "Int8Tensor", "_tensor_data_names": ["qdata", "scale", "zero_point"]}
        assert all(torch.equal(file.get_tensor(name), tensor) for name, tensor in TENSORS.items())
