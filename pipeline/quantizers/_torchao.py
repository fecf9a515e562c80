"""What the torchao quantizers share: the load → save walk. Weights stay in the wrappers that multiply by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.quantizers import Quantized, QuantizeJob, _skipping

FORMAT = "torchao"
PACKAGES = ("torchao", "transformers", "torch")


def quantize(job: QuantizeJob, config: Any, dtype: str) -> Quantized:
    """Quantize `job.base` by a torchao config into `job.out`; tensors that are left are stored in `dtype`."""
    import torch
    from torchao.utils import TorchAOBaseTensor
    from transformers import AutoModelForCausalLM, TorchAoConfig

    model = AutoModelForCausalLM.from_pretrained(
        job.base,
        dtype=getattr(torch, dtype),
        device_map=job.device,
        local_files_only=True,
        quantization_config=TorchAoConfig(config, modules_to_not_convert=_skipping.full_names(job)),
    )
    linears = (pair for pair in model.named_modules() if isinstance(pair[1], torch.nn.Linear))
    modules = [name for name, module in linears if isinstance(module.weight, TorchAOBaseTensor)]
    # FP8 products want multiples of 16, and torchao leaves out other layers too.
    _skipping.require_some(modules, "torchao", ", or, for FP8, their sizes are no multiples of 16")
    model.save_pretrained(job.out)
    for path in sorted(job.out.glob("*.safetensors")):
        _sort_metadata(path)
    return Quantized(modules)


def _sort_metadata(path: Path) -> None:
    """Put the file's metadata in order: safetensors writes its entries, and torchao the names in them, in any order.

    Equal weights would get a new hash at every run. Both are as long in any order, so the weights stay in their place
    (huggingface.co/docs/safetensors, "Format": the header's length, a JSON header padded with spaces, the data).
    """
    with path.open("r+b") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
        entries = header["__metadata__"]
        header["__metadata__"] = {name: _sorted_names(entries[name]) for name in sorted(entries)}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) > length:
            raise RuntimeError(f"{path.name}: its header does not hold its own entries in order; safetensors changed")
        stream.seek(8)
        stream.write(text.ljust(length))


def _sorted_names(entry: str) -> str:
    """What torchao tells of one tensor, with the parts that it is made of in order."""
    value = json.loads(entry) if entry.startswith("{") else None
    if value is None or "_tensor_data_names" not in value:
        return entry
    return json.dumps({**value, "_tensor_data_names": sorted(value["_tensor_data_names"])})
