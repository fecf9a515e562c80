"""GGUF by llama.cpp: blocks of 32 or 256 weights with their scales, chosen per tensor by the file type asked for.

Needs no calibration. The checkpoint is written as a float16 GGUF file, and `llama_model_quantize` makes the artifact's
`model.gguf` of it. K-quants want rows of a multiple of 256 weights; other rows llama.cpp stores in another type. What
each tensor really is stands in `tensor_types.json` beside the weights.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pipeline import checkpoint, progress, store
from pipeline.model_shape import ModelShape
from pipeline.quantizers import (
    Quantized,
    QuantizeJob,
    QuantizerSettings,
    _gguf_conversion,
    _gguf_tokenizer,
)

FORMAT = "gguf"
PACKAGES = ("llama-cpp-python", "gguf")
ENVIRONMENT: Mapping[str, str] = {}
TOOLCHAIN = "llama-cpp@cf3a3a4702cf"

MODEL = "model.gguf"
TENSOR_TYPES = "tensor_types.json"
FLOATS = frozenset({"F32", "F16", "BF16"})
"""Tensor types that are no quantization."""

FileType = Literal[
    "F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0",
    "IQ4_NL", "IQ4_XS", "Q3_K_L", "Q3_K_M", "Q3_K_S", "IQ3_M", "IQ3_S", "Q2_K", "TQ2_0", "TQ1_0",
]  # fmt: skip
"""File types of llama.cpp 0.3.36 (include/llama.h `llama_ftype`) that need no importance matrix."""

TensorType = Literal[
    "F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q5_1", "Q5_0", "Q4_K", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "Q3_K",
    "Q2_K",
]  # fmt: skip

_STEP = re.compile(r"^\[\s*(\d+)/\s*(\d+)\]")
"""How llama.cpp begins the line of each tensor that it quantizes."""


class Settings(QuantizerSettings):
    type: FileType = "Q4_K_M"
    """What llama.cpp calls the file; the types of its tensors follow from it."""
    output_tensor_type: TensorType | None = None
    """Of the output layer's matrix, be it the input embedding's too (tied); None leaves the choice to llama.cpp."""
    token_embedding_type: TensorType | None = None
    """Of the input embedding; where it is the output layer's too, this counts before `output_tensor_type`. None leaves
    the choice to llama.cpp."""
    quantize_output_tensor: bool = True
    """Whether an output layer with a matrix of its own is quantized at all."""
    pure: bool = False
    """Use one type for every matrix, instead of the mix that the file type stands for."""
    tokenizer: Literal["include", "none"] = "include"
    """Whether the file holds the tokenizer, as whoever serves it with llama.cpp needs; measuring does not."""

    def stored_bytes(self, parameters: int) -> float:
        types = {self.type, self.output_tensor_type, self.token_embedding_type}
        return (4.0 if "F32" in types else 2.0) * parameters

    def temporary_bytes(self, parameters: int) -> float:
        return 2.0 * parameters


def check(settings: Settings, model: ModelShape) -> list[str]:
    config = {**model.config, "architectures": [model.architecture]}
    return [
        *(f"type: {problem}" for problem in _gguf_conversion.problems(config)),
        *_combination_problems(settings, tied=model.lm_head is None),
    ]


def _combination_problems(settings: Settings, *, tied: bool) -> Iterator[str]:
    """Settings that would change nothing."""
    if settings.pure and settings.type in FLOATS:
        yield f"pure: true is about the mix of types that quantize, and type {settings.type} quantizes nothing"
    if not settings.quantize_output_tensor and tied:
        yield (
            "quantize_output_tensor: false is about an output layer with a matrix of its own, and this model's is the "
            "input embedding's (tied); give token_embedding_type: F16 to keep it in 16 bits"
        )
    if tied and settings.output_tensor_type is not None and settings.token_embedding_type is not None:
        yield (
            f"output_tensor_type: {settings.output_tensor_type} is never used, since output layer and input embedding "
            "are one matrix (tied), for which token_embedding_type decides; give one of them"
        )
    if not settings.quantize_output_tensor and settings.output_tensor_type is not None:
        yield (
            f"output_tensor_type: {settings.output_tensor_type} is never used, since quantize_output_tensor is false; "
            "give one of them"
        )


def quantize(job: QuantizeJob) -> Quantized:
    settings: Settings = job.settings
    floats = job.out / "float16.gguf"
    _write_floats(job.base, floats, settings)
    _quantize(floats, job.out / MODEL, settings)
    floats.unlink()
    shutil.copyfile(job.base / "config.json", job.out / "config.json")
    types = tensor_types(job.out / MODEL)
    counts = dict(sorted(Counter(types.values()).items()))
    print(f"{settings.type}: " + ", ".join(f"{count} tensors of {kind}" for kind, count in counts.items()), flush=True)
    store.write_json(job.out / TENSOR_TYPES, {"asked": settings.type, "counts": counts, "tensors": types})
    names = _gguf_conversion.tensor_names(job.base, checkpoint.config(job.base))
    return Quantized(quantized_modules(names, types))


def quantized_modules(names: Mapping[str, str], types: Mapping[str, str]) -> list[str]:
    """Linear layers of the checkpoint whose matrix is quantized.

    Args:
        names: tensor of the checkpoint → its name in the GGUF file.
        types: tensor of the GGUF file → its type.
    """
    return [
        name.removesuffix(".weight")
        for name, known in names.items()
        if (checkpoint.block(name) or name == "lm_head.weight") and types[known] not in FLOATS
    ]


def tensor_types(path: Path) -> dict[str, str]:
    """Tensor of a GGUF file → the type that it is stored in, in the order of the file."""
    import gguf

    return {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors}


def _write_floats(base: Path, path: Path, settings: Settings) -> None:
    """The checkpoint as a GGUF file that is not quantized.

    Raises:
        UserError: the model or its tokenizer cannot be converted.
    """
    if settings.tokenizer == "none":
        _gguf_conversion.write(base, path, _gguf_tokenizer.add_none)
        return
    _gguf_tokenizer.require_known(base)
    _gguf_conversion.write(base, path, lambda writer: _gguf_tokenizer.add(writer, base))
    _gguf_tokenizer.require_alike(path, base)


def _quantize(source: Path, target: Path, settings: Settings) -> None:
    """Raises RuntimeError when llama.cpp refuses; its reason stands in the log."""
    import gguf
    import llama_cpp

    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = file_type(settings.type)
    options.quantize_output_tensor = settings.quantize_output_tensor
    options.pure = settings.pure
    if settings.output_tensor_type is not None:
        options.output_tensor_type = gguf.GGMLQuantizationType[settings.output_tensor_type]
    if settings.token_embedding_type is not None:
        options.token_embedding_type = gguf.GGMLQuantizationType[settings.token_embedding_type]
    log = _Log()
    # Held here for as long as llama.cpp may call it.
    callback = llama_cpp.llama_log_callback(log)
    llama_cpp.llama_log_set(callback, None)
    try:
        code = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), options)
    finally:
        llama_cpp.llama_log_set(llama_cpp.llama_log_callback(), None)
    if code != 0:
        raise RuntimeError(f"llama_model_quantize failed ({code}): {log.last_line}")


def file_type(name: str) -> int:
    """llama.cpp's number of a file type."""
    import llama_cpp

    kind = "ALL" if name == "F32" else "MOSTLY"
    return int(getattr(llama_cpp, f"LLAMA_FTYPE_{kind}_{name}"))


class _Log:
    """Prints what llama.cpp says into the worker's log, and tells how many tensors are done."""

    def __init__(self) -> None:
        self.last_line = "no words"
        self._begun = ""

    def __call__(self, level: int, text: bytes, user_data: Any) -> None:
        """Take a piece of the log; a line may come in several."""
        *lines, self._begun = (self._begun + text.decode(errors="replace")).split("\n")
        for line in filter(None, lines):
            self.last_line = line
            print(line, flush=True)
            step = _STEP.match(line)
            if step:
                progress.report(int(step[1]), int(step[2]), "tensors")
