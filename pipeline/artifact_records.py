"""What an artifact says of itself, and what making it took."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pipeline.records import Outcome, Reading, Record, Sha256, missing


class BaseModelInfo(Record):
    name: str
    source: str
    revision: str
    licence: str
    provenance: str
    """Open words on where the weights come from, e.g. that they were de-quantized."""


class FileInfo(Record):
    bytes: int
    sha256: Sha256


class CalibrationUse(Record):
    set_name: str
    set_version: str
    sha256: Sha256
    """Hash over the token ids the quantizer was given."""
    samples_total: int
    samples_kept: int
    samples_dropped: int
    """Those not kept: too short, or not drawn."""
    tokens: int


class Attempt(Record):
    """One try of a quantizer that may need more than one."""

    settings: dict[str, Any]
    """What this try changed."""
    failure: str | None
    """Why it did not do; None for the one that did."""


class Manifest(Record):
    """Written last into an artifact: its presence means that the artifact is complete.

    Holds nothing that differs between two runs on the same inputs (no time, no host).
    """

    schema_version: Literal[3] = 3
    name: str
    base: BaseModelInfo
    quantizer: str | None
    """None for the base checkpoint itself."""
    settings: dict[str, Any]
    packages: dict[str, str]
    format: str
    """What an engine must be able to load: `safetensors`, `bitsandbytes`, `gptq`, `awq`, `torchao`, `gguf`."""
    files: dict[str, FileInfo]
    artifact_sha256: Sha256
    """Hash over the table of file names and file hashes."""
    weight_bytes: int
    """Bytes of the weight files on disk."""
    parameters: int
    """Number of weights of the base model, tied weights counted once."""
    bits_per_weight: float
    """8 × weight_bytes / parameters."""
    quantized_modules: list[str]
    unquantized_modules: list[str]
    """Linear layers inside the decoder's blocks, and the lm_head where it has weights of its own, left as they were."""
    attempts: list[Attempt] = Field(default=[])
    at_load: str | None = None
    """Why the weights are stored unquantized and quantized at each load; None where they are stored quantized."""
    toolchain: str | None = None
    """The environment apart from the main one that made it."""
    tokenizer_sha256: Sha256
    chat_template_sha256: Sha256 | None
    context_length: int
    calibration: CalibrationUse | None = None


class QuantizeRecord(Outcome):
    stage: Literal["quantize"] = "quantize"
    quantizer: str
    base: BaseModelInfo | None = None
    tokenizer_sha256: Sha256 | None = None
    chat_template_sha256: Sha256 | None = None
    artifact_sha256: Sha256 | None = None
    weight_bytes: int | None = None
    bits_per_weight: float | None = None
    calibration: CalibrationUse | None = None
    quantized_modules: list[str] = Field(default=[])
    unquantized_modules: list[str] = Field(default=[])
    attempts: list[Attempt] = Field(default=[])
    at_load: str | None = None
    toolchain: str | None = None
    worker: dict[str, str] = Field(default={})
    """How the process was set up: threads, cores, waiting, allocator."""
    wall_s: float
    peak_process_bytes: Reading
    peak_gpu_bytes: Reading = missing("not recorded")
    """What torch's allocator took from the GPU at most."""
