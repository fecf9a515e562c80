"""A checkpoint folder seen without loading it: tensor shapes from safetensors headers, hashes, the manifest."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import records, store
from pipeline.artifact_records import Attempt, BaseModelInfo, CalibrationUse, FileInfo, Manifest
from pipeline.errors import UserError

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt")
WEIGHT_FILES = (".safetensors", ".gguf")
"""Ends of the names of files that hold weights."""
CONTEXT_LENGTH = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len")
"""Names that the models of transformers give it in config.json; the last three: GPT-2 and its kin, BLOOM, MPT."""
SHOWN = 3
"""Names of tensors in a message."""
CHAT_TEMPLATE_FILE = "chat_template.jinja"
TAKEN_OVER: Mapping[str, Sequence[str]] = {
    "tokenizer": (*TOKENIZER_FILES, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    "chat template": (CHAT_TEMPLATE_FILE,),
    "generation config": ("generation_config.json",),
}
"""Files that every artifact takes over from the base byte for byte, by what they are."""
QUANTIZATION_AT_LOAD = "quantization_at_load.json"
"""A file beside unquantized weights: the `quantization_config` of transformers by which an engine quantizes them each
time it loads them. In config.json it would say that they are quantized already."""


_BLOCK = re.compile(r".+?\.\d+(?=\.)")


@dataclass(frozen=True)
class Linear:
    """One linear layer of the decoder: `name` as in the checkpoint without `.weight`."""

    name: str
    in_features: int
    out_features: int


def tensor_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Name → shape of every tensor in the folder's safetensors files, read from their headers.

    Format: an unsigned little-endian 64-bit header length, then a JSON header
    (huggingface.co/docs/safetensors, "Format").

    Raises:
        UserError: the folder is missing or holds no safetensors file.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give the folder of a checkpoint")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        other = sorted(path.name for path in folder.iterdir() if path.suffix in {".bin", ".pt", ".pth", ".gguf"})
        found = f" (found {', '.join(other)})" if other else ""
        raise UserError(
            f"{folder}: no .safetensors file{found}; only safetensors checkpoints are loaded, since pickle files can "
            "run code. Convert it with transformers: from_pretrained(...).save_pretrained(...)"
        )
    shapes: dict[str, tuple[int, ...]] = {}
    for path in files:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            try:
                header = json.loads(stream.read(length))
                named = {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
            except (ValueError, MemoryError, OverflowError, RecursionError, AttributeError, KeyError, TypeError):
                raise UserError(f"{path}: damaged; its safetensors header cannot be read") from None
        shapes.update(named)
    return shapes


def block(name: str) -> str | None:
    """The numbered block that a tensor or module is in, such as `model.layers.3` or `transformer.h.3`; None outside."""
    found = _BLOCK.match(name)
    return found.group() if found else None


def linears(folder: Path) -> list[Linear]:
    """The linear layers inside the decoder's blocks, in checkpoint order: the ones that quantizers treat.

    Found as the matrices named `weight` in numbered blocks. They lie [outputs, inputs], but [inputs, outputs] in all
    blocks of models with transformers' `Conv1D` (GPT-2 and its kin), which show by a bias as long as the rows.
    """
    shapes = tensor_shapes(folder)
    matrices = {
        name.removesuffix(".weight"): shape
        for name, shape in shapes.items()
        if name.endswith(".weight") and len(shape) == 2 and block(name)
    }
    turned = any(shape[0] != shape[1] and shapes.get(f"{name}.bias") == (shape[1],) for name, shape in matrices.items())
    return [Linear(name, *(shape if turned else reversed(shape))) for name, shape in matrices.items()]


def parameter_count(folder: Path) -> int:
    return sum(math.prod(shape) for shape in tensor_shapes(folder).values())


def config(folder: Path) -> dict[str, Any]:
    """config.json of a checkpoint. Raises UserError when it is missing or not JSON."""
    path = folder / "config.json"
    try:
        value = store.read_json(path)
    except FileNotFoundError:
        raise UserError(f"{path}: missing; a checkpoint folder needs its config.json") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def context_length(folder: Path) -> int:
    found = config(folder)
    lengths = [found[name] for name in CONTEXT_LENGTH if isinstance(found.get(name), int)]
    if not lengths:
        names = ", ".join(CONTEXT_LENGTH)
        raise UserError(f"{folder / 'config.json'}: none of {names}, so the context length is unknown")
    return int(lengths[0])


def faults_on_loading(info: Mapping[str, Iterable[Any]]) -> str | None:
    """What a library says of tensors that it did not find as it wanted them; None where it says nothing.

    Args:
        info: as `from_pretrained` of transformers gives it with `output_loading_info`: kind of fault → names, or
            tuples that begin with one.
    """
    found = []
    for kind, entries in info.items():
        names = sorted(str(entry[0] if isinstance(entry, tuple) else entry) for entry in entries)
        if names:
            rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            found.append(f"{kind.replace('_', ' ')} {', '.join(names[:SHOWN])}{rest}")
    return "; ".join(found) or None


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of those of the named distributions that are installed."""
    versions = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def write_manifest(
    folder: Path,
    *,
    name: str,
    base: BaseModelInfo,
    quantizer: str | None,
    settings: Mapping[str, Any],
    packages: Mapping[str, str],
    format: str,
    parameters: int,
    quantized_modules: Iterable[str],
    unquantized_modules: Iterable[str] = (),
    attempts: Iterable[Attempt] = (),
    at_load: str | None = None,
    toolchain: str | None = None,
    calibration: CalibrationUse | None = None,
) -> Manifest:
    """Hash everything in the folder and write its manifest.json, which marks the artifact as complete."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    paths = {name: folder / name for name in names if name != store.MANIFEST}
    files = {name: FileInfo(bytes=path.stat().st_size, sha256=store.sha256_file(path)) for name, path in paths.items()}
    weight_bytes = sum(info.bytes for file, info in files.items() if file.endswith(WEIGHT_FILES))
    tokenizer = {name: files[name].sha256 for name in TOKENIZER_FILES if name in files}
    template = files.get(CHAT_TEMPLATE_FILE)
    manifest = Manifest(
        name=name,
        base=base,
        quantizer=quantizer,
        settings=dict(settings),
        packages=dict(packages),
        format=format,
        files=files,
        artifact_sha256=store.sha256_json({name: info.sha256 for name, info in files.items()}),
        weight_bytes=weight_bytes,
        parameters=parameters,
        bits_per_weight=8 * weight_bytes / parameters,
        quantized_modules=sorted(quantized_modules),
        unquantized_modules=sorted(unquantized_modules),
        attempts=list(attempts),
        at_load=at_load,
        toolchain=toolchain,
        tokenizer_sha256=store.sha256_json(tokenizer),
        chat_template_sha256=template.sha256 if template else None,
        context_length=context_length(folder),
        calibration=calibration,
    )
    records.save(folder / store.MANIFEST, manifest)
    return manifest


def read_manifest(folder: Path) -> Manifest:
    return records.load(folder / store.MANIFEST, Manifest)


def is_complete(folder: Path) -> bool:
    return (folder / store.MANIFEST).is_file()
