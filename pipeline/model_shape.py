"""What a checkpoint's config.json and tensor headers tell of a model, before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import checkpoint
from pipeline.checkpoint import Linear

ROW_PARALLEL = frozenset(
    {"o_proj", "out_proj", "down_proj", "c_proj", "fc2", "w2", "wo", "dense", "dense_4h_to_h", "linear_fc2", "fc_out"}
)
"""Last parts of the names of layers whose input is split among devices under tensor parallelism: the second matrix of
attention and of the feed-forward block (Shoeybi et al. 2019, "Megatron-LM", section 3). All others split their output.
"""

KEY_VALUE = frozenset({"k_proj", "v_proj"})
"""Last parts of the names of layers that give keys and values, of whose heads there may be fewer than devices."""


@dataclass(frozen=True)
class ModelShape:
    model_type: str
    """As in config.json, e.g. `llama`; empty where it tells none."""
    architecture: str
    """The first of config.json's `architectures`, e.g. `LlamaForCausalLM`; empty where it names none."""
    linears: tuple[Linear, ...]
    """The linear layers inside the decoder's blocks, in checkpoint order."""
    lm_head: Linear | None
    """The output layer where it has weights of its own; None where it shares the input embedding's (tied)."""
    attention_heads: int | None
    """None where config.json does not tell."""
    kv_heads: int | None = None
    """Heads that keys and values have: fewer than queries where several of these share one. None where config.json does
    not tell."""
    hidden_size: int | None = None
    """Width of what passes from block to block; None where config.json does not tell."""
    context_length: int | None = None
    """Tokens; None where config.json does not tell."""
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All of config.json."""
    tensor_parallel: int = 1
    """Devices that each layer will be split among when it is served."""

    @property
    def widest_input(self) -> int:
        """Input features of the widest linear layer of the blocks; 0 where there is none."""
        return max((layer.in_features for layer in self.linears), default=0)

    @property
    def all_linears(self) -> tuple[Linear, ...]:
        """Those of the blocks, and the lm_head where it has weights of its own."""
        return (*self.linears, self.lm_head) if self.lm_head else self.linears

    def shard_inputs(self, layer: Linear) -> int:
        """Input features of the layer on one device; all of them where `tensor_parallel` does not divide them."""
        split = layer.name.rsplit(".", 1)[-1] in ROW_PARALLEL and layer.in_features % self.tensor_parallel == 0
        return layer.in_features // self.tensor_parallel if split else layer.in_features


def read(folder: Path, tensor_parallel: int = 1) -> ModelShape:
    """The shape of the checkpoint in `folder`.

    Raises:
        UserError: config.json or the safetensors files are missing or cannot be read.
    """
    config = checkpoint.config(folder)
    architectures = config.get("architectures") or [""]
    return ModelShape(
        model_type=str(config.get("model_type", "")),
        architecture=str(architectures[0]),
        linears=tuple(checkpoint.linears(folder)),
        lm_head=_lm_head(folder, tied=config.get("tie_word_embeddings") is True),
        attention_heads=_first(config, ("num_attention_heads", "n_head")),
        kv_heads=_first(config, ("num_key_value_heads", "num_attention_heads", "n_head")),
        hidden_size=_first(config, ("hidden_size", "n_embd")),
        context_length=_first(config, checkpoint.CONTEXT_LENGTH),
        config=config,
        tensor_parallel=tensor_parallel,
    )


def _first(config: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """The first of these entries that is a whole number."""
    return next((config[name] for name in names if isinstance(config.get(name), int)), None)


def _lm_head(folder: Path, *, tied: bool) -> Linear | None:
    """`lm_head.weight`, unless config.json ties it: then a stored copy is not used."""
    shape = checkpoint.tensor_shapes(folder).get("lm_head.weight")
    if tied or shape is None or len(shape) != 2:
        return None
    return Linear("lm_head", in_features=shape[1], out_features=shape[0])
