"""A safetensors checkpoint of a Llama-like decoder as a float16 GGUF file, tensor by tensor.

Names of tensors and of metadata are those of the `gguf` package, which llama.cpp publishes; what is done here is to say
which of a checkpoint's config values stand for which metadata, and to refuse what llama.cpp would compute otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import checkpoint
from pipeline.errors import UserError

SUFFIXES = (".weight", ".bias")
NOT_STORED = (".rotary_emb.inv_freq",)
"""Ends of the names of tensors that a model computes anew from its config."""


@dataclass(frozen=True)
class Architecture:
    gguf_name: str
    """Member of `gguf.MODEL_ARCH`."""
    pairs_adjacent: bool
    """Whether llama.cpp rotates neighbouring rows of a head's queries and keys, where transformers rotates rows that
    stand half a head apart; the rows are then put into llama.cpp's order."""


ARCHITECTURES: Mapping[str, Architecture] = {
    "LlamaForCausalLM": Architecture("LLAMA", pairs_adjacent=True),
    "MistralForCausalLM": Architecture("LLAMA", pairs_adjacent=True),
    "Qwen2ForCausalLM": Architecture("QWEN2", pairs_adjacent=False),
    "Qwen3ForCausalLM": Architecture("QWEN3", pairs_adjacent=False),
}
"""`architectures` of config.json that are converted; which ones llama.cpp rotates how: its src/llama-model.cpp,
`llama_model_rope_type`."""


@dataclass(frozen=True)
class Rope:
    kind: str
    theta: float
    values: Mapping[str, Any]
    """What else the config says of it."""


def unknown_architecture(name: str) -> list[str]:
    """What is wrong with an architecture as config.json names it."""
    if name in ARCHITECTURES:
        return []
    return [
        f"the base model is a {name or 'model without `architectures` in config.json'}; a GGUF file is written of "
        f"{', '.join(sorted(ARCHITECTURES))}"
    ]


def problems(config: Mapping[str, Any]) -> list[str]:
    """Everything in a checkpoint's config.json that its GGUF file could not say, or llama.cpp would not do."""
    name = next(iter(config.get("architectures") or []), "")
    found = unknown_architecture(name)
    kind = rope(config).kind
    if kind not in ROPE:
        found.append(f"rope_type {kind!r} of config.json is not converted; those that are: {', '.join(sorted(ROPE))}")
    if config.get("hidden_act", "silu") != "silu":
        found.append(
            f"hidden_act {config['hidden_act']!r} of config.json: llama.cpp computes SiLU for this architecture"
        )
    if rope(config).values.get("partial_rotary_factor", 1.0) != 1.0:
        found.append("partial_rotary_factor of config.json: llama.cpp rotates whole heads for this architecture")
    window, length = config.get("sliding_window"), config.get("max_position_embeddings")
    if window and config.get("use_sliding_window", True) and (length is None or window < length):
        found.append(
            f"sliding_window {window} of config.json: for this architecture llama.cpp lets each token see all before "
            "it; where you serve it so too, set it to null in the base model"
        )
    return found


def rope(config: Mapping[str, Any]) -> Rope:
    """Rotary settings as transformers 5 writes them (`rope_parameters`) or as before (`rope_theta`, `rope_scaling`)."""
    values = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    kind = values.pop("rope_type", values.pop("type", "default"))
    theta = values.pop("rope_theta", config.get("rope_theta", 10000.0))
    return Rope(str(kind), float(theta), values)


def head_dim(config: Mapping[str, Any]) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def kv_heads(config: Mapping[str, Any]) -> int:
    return int(config.get("num_key_value_heads") or config["num_attention_heads"])


def write(base: Path, path: Path, add_tokenizer: Callable[[Any], None]) -> None:
    """Write the checkpoint in `base` as a GGUF file with float16 matrices and float32 vectors, as llama.cpp wants them.

    Args:
        add_tokenizer: adds the tokenizer's metadata to the `gguf.GGUFWriter` it is given.

    Raises:
        UserError: the model cannot be converted; every reason that can be told before any work.
    """
    import gguf

    config = checkpoint.config(base)
    names = tensor_names(base, config)
    architecture = ARCHITECTURES[config["architectures"][0]]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH[architecture.gguf_name]])
    add_metadata(writer, config)
    add_tokenizer(writer)
    for tensor in _tensors(base, config, names, architecture):
        writer.add_tensor_info(tensor.name, tensor.shape, tensor.dtype, tensor.bytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in _tensors(base, config, names, architecture):
        writer.write_tensor_data(tensor.values())
    writer.close()


def tensor_names(base: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Tensor of the checkpoint → its name in the GGUF file; what llama.cpp does not need is left out.

    Raises:
        UserError: `problems`, and tensors that this architecture has no place for.
    """
    import gguf

    found = problems(config)
    if found:
        raise UserError(found)
    architecture = ARCHITECTURES[config["architectures"][0]]
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture.gguf_name], config["num_hidden_layers"])
    tied = config.get("tie_word_embeddings") is True
    names: dict[str, str] = {}
    unknown = []
    for name in checkpoint.tensor_shapes(base):
        if name.endswith(NOT_STORED) or (tied and name == "lm_head.weight"):
            continue
        known = table.get_name(name, try_suffixes=SUFFIXES)
        if known is None:
            unknown.append(name)
        else:
            names[name] = known
    if unknown:
        shown = ", ".join(unknown[:3]) + (", …" if len(unknown) > 3 else "")
        raise UserError(f"{base}: {len(unknown)} tensors have no place in a GGUF file of this architecture: {shown}")
    return names


def add_metadata(writer: Any, config: Mapping[str, Any]) -> None:
    """What llama.cpp needs to know of the model; keys and types by `gguf.GGUFWriter`."""
    import gguf

    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(kv_heads(config))
    writer.add_key_length(head_dim(config))
    writer.add_value_length(head_dim(config))
    writer.add_rope_dimension_count(head_dim(config))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    found = rope(config)
    writer.add_rope_freq_base(found.theta)
    ROPE[found.kind].add_metadata(writer, found)


@dataclass(frozen=True)
class _Tensor:
    name: str
    shape: Sequence[int]
    dtype: Any
    """numpy's."""
    bytes: int
    values: Callable[[], Any]
    """Reads them; a file is read tensor by tensor, so that a large model needs no memory of its size."""


def _tensors(
    base: Path, config: Mapping[str, Any], names: Mapping[str, str], architecture: Architecture
) -> Iterator[_Tensor]:
    """Every tensor of the GGUF file, in the order of the checkpoint's files, then what is computed from the config."""
    import numpy
    from safetensors import safe_open

    for path in sorted(base.glob("*.safetensors")):
        with safe_open(path, framework="numpy") as stored:
            for name in stored.keys():  # noqa: SIM118 - not a dict
                if name not in names:
                    continue
                shape = stored.get_slice(name).get_shape()
                dtype = numpy.dtype(numpy.float16 if len(shape) > 1 else numpy.float32)

                def values(name: str = name, stored: Any = stored, dtype: Any = dtype) -> Any:
                    read = stored.get_tensor(name)
                    heads = _rotated_heads(name, config) if architecture.pairs_adjacent else None
                    return numpy.ascontiguousarray(adjacent_pairs(read, heads) if heads else read, dtype=dtype)

                yield _Tensor(names[name], shape, dtype, int(numpy.prod(shape)) * dtype.itemsize, values)
    factors = ROPE[rope(config).kind].factors(rope(config), head_dim(config))
    if factors is not None:
        yield _Tensor("rope_freqs.weight", factors.shape, factors.dtype, factors.nbytes, lambda: factors)


def _rotated_heads(name: str, config: Mapping[str, Any]) -> int | None:
    """Number of heads in the rows of a tensor that positions rotate; None for all other tensors."""
    module = name.rsplit(".", 2)[-2]
    return {"q_proj": int(config["num_attention_heads"]), "k_proj": kv_heads(config)}.get(module)


def adjacent_pairs(rows: Any, heads: int) -> Any:
    """Rows of each head reordered so that the two that are rotated together, half a head apart, become neighbours.

    Row `i` of a head's first half goes to place 2i, row `i` of its second half to place 2i + 1.
    """
    halves = rows.reshape(heads, 2, len(rows) // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


@dataclass(frozen=True)
class _RopeKind:
    """How one `rope_type` of config.json is told to llama.cpp."""

    add_metadata: Callable[[Any, Rope], None] = lambda writer, rope: None
    factors: Callable[[Rope, int], Any] = lambda rope, width: None
    """What each rotation's frequency is divided by, float32 [width / 2]; None where they are left as they are."""


def _linear(writer: Any, found: Rope) -> None:
    import gguf

    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(found.values["factor"])


def llama3_factors(found: Rope, width: int) -> Any:
    """Divisors of the rotation frequencies of Llama 3.1, float32 [width / 2].

    Long wavelengths are stretched by `factor`, short ones left, those between interpolated
    (transformers 5.24, modeling_rope_utils.py `_compute_llama3_parameters`).
    """
    import numpy

    low, high = found.values["low_freq_factor"], found.values["high_freq_factor"]
    original, factor = found.values["original_max_position_embeddings"], found.values["factor"]
    turns = original / (2 * numpy.pi * found.theta ** (numpy.arange(0, width, 2, dtype=numpy.float64) / width))
    kept = numpy.clip((turns - low) / (high - low), 0, 1)
    return (1 / (kept + (1 - kept) / factor)).astype(numpy.float32)


ROPE: Mapping[str, _RopeKind] = {
    "default": _RopeKind(),
    "linear": _RopeKind(add_metadata=_linear),
    "llama3": _RopeKind(factors=llama3_factors),
}
