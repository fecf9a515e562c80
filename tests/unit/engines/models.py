"""Tiny models that cannot read several prompts in one row, built on the spot, with random weights loud enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SIZES: Mapping[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
WINDOW = 6


def windowed() -> Any:
    """Two layers that see the last `WINDOW` tokens."""
    from transformers import MistralConfig

    return MistralConfig(**SIZES, num_hidden_layers=2, sliding_window=WINDOW)


def mixed() -> Any:
    """One layer that sees the last `WINDOW` tokens, one that sees all."""
    from transformers import Gemma3TextConfig

    kinds = ["sliding_attention", "full_attention"]
    return Gemma3TextConfig(**SIZES, num_hidden_layers=2, head_dim=16, layer_types=kinds, sliding_window=WINDOW)


def recurrent() -> Any:
    """Two layers that keep a state of the last tokens, one with keys and values."""
    from transformers import Lfm2Config

    return Lfm2Config(**SIZES, num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"])


def placed() -> Any:
    """Two layers that count distances in the row, and take no positions."""
    from transformers import BloomConfig

    return BloomConfig(vocab_size=300, hidden_size=64, n_layer=2, n_head=4, eos_token_id=2)


def placed_with_positions() -> Any:
    """The same from a model that takes positions, for others of its kind need them."""
    from transformers import FalconConfig

    sizes = {"vocab_size": 300, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return FalconConfig(**sizes, alibi=True, bos_token_id=1, eos_token_id=2)


OTHERS: Mapping[str, Callable[[], Any]] = {
    "windowed": windowed,
    "mixed": mixed,
    "recurrent": recurrent,
    "placed": placed,
    "placed, with positions": placed_with_positions,
}


def save(config: Any, folder: Path) -> Path:
    """Save a model of this config with random weights, eightfold but for embeddings."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and "emb" not in name:
                weight *= 8
    model.save_pretrained(folder)
    return folder
