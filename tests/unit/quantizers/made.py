"""What quantizers make of a tiny model, looked at from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import store
from pipeline.engines import EngineOptions
from pipeline.engines import transformers as engine
from pipeline.engines.transformers import TransformersSession
from pipeline.quantizers import Quantized

PROMPT = list(range(40, 72))


@dataclass(frozen=True)
class Made:
    folder: Path
    done: Quantized

    def hashes(self) -> dict[str, str]:
        return {path.name: store.sha256_file(path) for path in sorted(self.folder.iterdir())}

    def tensors(self) -> dict[str, Any]:
        from safetensors.torch import load_file

        return {name: tensor for path in self.folder.glob("*.safetensors") for name, tensor in load_file(path).items()}

    def session(self, dtype: str = "bfloat16") -> TransformersSession:
        return engine.load(self.folder, EngineOptions("cpu", dtype, 2))


Make = Callable[..., Made]
"""`make(quantizer, **settings)`: quantize the tiny model on the CPU into a new folder."""


def divergence(ours: Any, theirs: Any) -> float:
    """Mean KL divergence of the second distribution from the first over all positions, in nats."""
    import torch

    ours, theirs = (torch.from_numpy(logits).log_softmax(-1) for logits in (ours, theirs))
    return float(torch.nn.functional.kl_div(theirs, ours, log_target=True, reduction="batchmean"))
