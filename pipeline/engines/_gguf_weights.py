"""What a GGUF file says of its tensors, read without loading the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
ROWS = 1024
"""Rows of a matrix that are looked at together, so that a large one needs no float copy of its own size."""


@dataclass(frozen=True)
class StoredTensor:
    kind: str
    """ggml's name of its type."""
    bytes: int
    dimensions: int


def stored(path: Path) -> dict[str, StoredTensor]:
    """Name → tensor, in the order of the file."""
    import gguf

    return {
        tensor.name: StoredTensor(tensor.tensor_type.name, int(tensor.n_bytes), len(tensor.shape))
        for tensor in gguf.GGUFReader(path).tensors
    }


def kernels(tensors: Mapping[str, StoredTensor]) -> dict[str, int]:
    """Type that each matrix of the decoder's blocks is stored and multiplied in → how many there are."""
    matrices = [tensor for name, tensor in tensors.items() if name.startswith("blk.") and tensor.dimensions == 2]
    return dict(sorted(Counter(f"llama.cpp {tensor.kind}" for tensor in matrices).items()))


def decode_bytes(tensors: Mapping[str, StoredTensor]) -> int:
    """Bytes of all tensors, but for an input embedding beside which the output layer has a matrix of its own."""
    left_out = EMBEDDING if OUTPUT in tensors else None
    return sum(tensor.bytes for name, tensor in tensors.items() if name != left_out)


def broken(path: Path) -> dict[str, str] | None:
    """As `Session.broken_weights`, of the tensors in a GGUF file; None where one is of a type that cannot be read."""
    import gguf

    found = {}
    for tensor in gguf.GGUFReader(path).tensors:
        try:
            fault = _fault(tensor)
        except NotImplementedError:
            return None
        if fault:
            found[tensor.name] = fault
    return found


def _fault(tensor: Any) -> str | None:
    """A vector may well be all zero, a matrix may not.

    Raises:
        NotImplementedError: `gguf` cannot read this type.
    """
    import gguf
    import numpy

    rows = tensor.data.reshape(-1, tensor.data.shape[-1])
    some = tensor.data.ndim < 2
    for start in range(0, len(rows), ROWS):
        values = gguf.quants.dequantize(rows[start : start + ROWS], tensor.tensor_type)
        if not numpy.isfinite(values).all():
            return "NaN or infinity"
        some = some or bool(values.any())
    return None if some else "nothing but zeros"
