"""Weights that no healthy model has, found in a loaded torch model, and those that a checkpoint lacks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from pipeline import checkpoint
from pipeline.engines import _transformers_kernels as kernels

PART = 2**24
"""Elements that are looked at together, so that a large embedding needs no copy of its own size."""


@contextlib.contextmanager
def all_there() -> Iterator[None]:
    """Within it, transformers loads no checkpoint that lacks tensors, or has them in other shapes than the model.

    By itself it warns and fills what is missing at random. `output_loading_info` tells it too late: kernels have packed
    by then what is there, and fail on it. Tied weights are not missing, and what is over changes nothing.

    Raises:
        ValueError: with the names of the tensors.
    """
    from transformers import modeling_utils

    report = modeling_utils.log_state_dict_report

    def refuse(*arguments: Any, model: Any, loading_info: Any, **named: Any) -> None:
        found = loading_info.to_dict()
        # The report is made after an error on the way too, when tied weights are not tied yet.
        found["missing_keys"] = found["missing_keys"] - model.all_tied_weights_keys.keys()
        if found["missing_keys"] or found["mismatched_keys"]:
            raise ValueError(f"the checkpoint is not whole: {checkpoint.faults_on_loading(found)}")
        report(*arguments, model=model, loading_info=loading_info, **named)

    modeling_utils.log_state_dict_report = refuse
    try:
        yield
    finally:
        modeling_utils.log_state_dict_report = report


def broken(model: Any) -> dict[str, str]:
    """As `Session.broken_weights`: of parameters, saved buffers and scales kept beside them, floats alone.

    Integers hold no NaN. Packed weights may well be all zero, as may a bias, and as are the zero points of a symmetric
    format, which some kernels hold as floats; a matrix named `weight` is not.
    """
    found = {
        name: _fault(tensor, zeroed=tensor.dim() >= 2 and name.rpartition(".")[2] == "weight")
        for name, tensor in _saved(model)
        if tensor.is_floating_point() and tensor.numel()
    }
    return {name: fault for name, fault in found.items() if fault}


def _saved(model: Any) -> Iterator[tuple[str, Any]]:
    """Not by `state_dict`: bitsandbytes 0.50.2 unpacks a layer for that, with its scales in the wrong places.

    Buffers that are not saved are computed by the model itself, and some are masks of minus infinity.
    """
    yield from model.named_parameters()
    for prefix, module in model.named_modules():
        for name, tensor in module.named_buffers(prefix, recurse=False):
            if name.rpartition(".")[2] not in module._non_persistent_buffers_set:
                yield name, tensor
        for name, tensor in kernels.beside(module):
            yield f"{prefix}.{name}", tensor


def _fault(tensor: Any, zeroed: bool) -> str | None:
    """What is wrong with the values; that all are zero is so only where `zeroed` asks for it."""
    import torch

    # Subclasses of quantization libraries do not split.
    whole = tensor if type(tensor.data) is torch.Tensor else tensor.dequantize()
    for part in whole.detach().reshape(-1).split(PART):
        # torch has no isfinite for floats of 8 bits.
        values = part.float() if part.element_size() == 1 else part
        if not values.isfinite().all():
            return "NaN or infinity"
        zeroed = zeroed and not values.any()
    return "nothing but zeros" if zeroed else None
