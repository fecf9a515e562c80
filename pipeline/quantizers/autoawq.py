"""AWQ by the archived package autoawq itself: scales up the weight channels that large activations meet.

The method is that of Lin et al. 2023. For teams that ship what this package makes; `gptqmodel_awq` is its maintained
successor.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from pipeline import calibration, progress
from pipeline.calibration import CalibrationSettings
from pipeline.checkpoint import Linear
from pipeline.model_shape import ModelShape
from pipeline.quantizers import (
    DTYPE_BYTES,
    Kernel,
    Quantized,
    QuantizeJob,
    QuantizerSettings,
    _archived,
    _gptqmodel,
    group_size_problems,
)

FORMAT = "awq"
PACKAGES = ("autoawq", "transformers", "torch")
ENVIRONMENT: Mapping[str, str] = {}
TOOLCHAIN = "autogptq-autoawq@da473d0052da"

MODEL_TYPES = (
    *("bloom", "cohere", "deepseek_v3", "falcon", "gemma", "gemma2", "gpt_bigcode", "gpt_neox", "gptj", "llama"),
    *("mistral", "mixtral", "mpt", "opt", "phi3", "qwen2", "qwen3", "qwen3_moe", "stablelm", "starcoder2"),
)
"""The language models that autoawq knows and that need no code from the model's own repository."""

GROUP_SIZES = (16, 32, 64, 128)
"""Those that the engines' kernels know; autoawq itself fails where one group is a whole channel (-1)."""

PACK_MULTIPLE = 8
CLIP_MULTIPLE = 64
"""Output features are packed, and searched for clipping, so many at a time."""
NOT_CLIPPED = ("q_", "k_", "query", "key", "Wqkv")
"""autoawq leaves modules unclipped in whose name, within the layer, one of these stands."""

KERNELS = {
    "cpu": _gptqmodel.cpu_kernel("TorchAtenAwqLinear"),
    "cuda": _gptqmodel.PackedKernel("AwqMarlinLinear", bits=(4, 8), group_sizes=(-1, 32, 64, 128), capability=8.0),
}
"""Those of the GEMM format; see `gptqmodel_awq`."""


class Settings(QuantizerSettings):
    bits: Literal[4] = 4
    """The GEMM checkpoint format packs 4-bit weights with zero points only."""
    group_size: Literal[16, 32, 64, 128] = 64
    """Weights that share one scale; must divide every layer's input size."""
    clip_search: bool = True
    """Whether to search, per group of weights, how far cutting off the largest lowers the error (section 4.1, "weight
    clipping")."""
    duo_scaling: bool = True
    """Whether the scales are searched from activations and weights (true) or from activations alone, as in the paper's
    equation 5 (false)."""
    search_memory_mib: int = Field(default=1024, ge=1)
    """Bound on the temporary tensors of the search, in MiB."""
    parallel_samples: int | None = Field(default=None, ge=1)
    """Blocks of calibration tokens that run through a layer together: fewer need less memory. None: all."""
    calibration: CalibrationSettings

    def working_bytes(self, model: ModelShape, parameters: int, tokens: int, device: str) -> dict[str, float]:
        width, dtype = model.hidden_size or model.widest_input, _archived.WORKING_DTYPE[device]
        return {
            f"weights in {dtype}": float(DTYPE_BYTES[dtype] * parameters),
            "a block's input and output on the calibration text": 2.0 * DTYPE_BYTES[dtype] * tokens * width,
            "the bound on the search (search_memory_mib)": float(self.search_memory_mib * 2**20),
        }

    def kernel(self, device: str, compute_dtype: str) -> Kernel:
        return KERNELS[device].fitting(self.bits, self.group_size, sym=False)


def check(settings: Settings, model: ModelShape) -> list[str]:
    found = group_size_problems(settings.group_size, model, GROUP_SIZES)
    unpacked = [layer for layer in model.linears if layer.out_features % PACK_MULTIPLE]
    if unpacked:
        found.append(
            f"bits: {unpacked[0].name} has {unpacked[0].out_features} output features, but autoawq packs multiples of "
            f"{PACK_MULTIPLE} only; use gptqmodel_awq"
        )
    unclipped = [layer for layer in model.linears if _is_clipped(layer) and layer.out_features % CLIP_MULTIPLE]
    if settings.clip_search and unclipped:
        found.append(
            f"clip_search: {unclipped[0].name} has {unclipped[0].out_features} output features, but autoawq searches "
            f"multiples of {CLIP_MULTIPLE} only; set it to false"
        )
    return found + _archived.model_type_problems(model, MODEL_TYPES, "autoawq", "gptqmodel_awq")


def quantize(job: QuantizeJob) -> Quantized:
    import torch
    from awq.models._config import AwqConfig
    from awq.models.auto import AWQ_CAUSAL_LM_MODEL_MAP

    settings: Settings = job.settings
    torch.manual_seed(job.seed)
    model = _archived.load(job)
    names = _archived.tensor_names(model)
    kind = model.config.model_type
    # What its from_pretrained makes, which does not tell of weights that it did not find.
    awq = AWQ_CAUSAL_LM_MODEL_MAP[kind](
        model, kind, is_quantized=False, config=model.config, quant_config=AwqConfig(), processor=None
    )
    # autoawq joins and cuts samples itself, but drops each that is longer than a block, and what does not fill the last
    # one; of equally long blocks it loses nothing.
    samples = calibration.equal_blocks(job.calibration)
    with _on_cpu() if job.device == "cpu" else contextlib.nullcontext():
        awq.quantize(
            quant_config={"w_bit": settings.bits, "q_group_size": settings.group_size, "version": "GEMM"},
            calib_data=samples,
            max_calib_samples=len(samples),
            max_calib_seq_len=len(samples[0]),
            duo_scaling=settings.duo_scaling,
            apply_clip=settings.clip_search,
            n_parallel_calib_samples=settings.parallel_samples,
            max_chunk_memory=settings.search_memory_mib * 2**20,
            quantizer_cls=restoring_quantizer(),
        )
    return Quantized(_archived.save(model, names, awq.quant_config.to_transformers_dict(), job))


def restoring_quantizer() -> type:
    """autoawq's quantizer class, mended so that its search for scales leaves the weights as they were on a CPU too.

    For each scale it tries, the search multiplies the weights in place, rounds them, and then restores them from what
    `state_dict()` gave at its start, moved to the CPU by `.cpu()`. From a GPU that is a copy. On a CPU it is the
    weights themselves, so the first scale tried stays multiplied into them while nothing divides the inputs by it.
    With `duo_scaling=False` that first scale happens to be 1. Here `state_dict()` gives copies while the search runs.
    """
    from awq.quantize.quantizer import AwqQuantizer

    class RestoringQuantizer(AwqQuantizer):  # type: ignore[misc]
        _layers_begun = 0

        def _get_input_feat(self, layer: Any, named_linears: Any) -> Any:
            progress.report(self._layers_begun, len(self.modules), "layers")
            self._layers_begun += 1
            return super()._get_input_feat(layer, named_linears)

        def _compute_best_scale(self, x: Any, w_mean: Any, x_mean: Any, module2inspect: Any, *rest: Any) -> Any:
            hook = module2inspect.register_state_dict_post_hook(_copy_tensors)
            try:
                return super()._compute_best_scale(x, w_mean, x_mean, module2inspect, *rest)
            finally:
                hook.remove()

    return RestoringQuantizer


def _copy_tensors(module: Any, state_dict: dict[str, Any], prefix: str, local_metadata: Any) -> None:
    state_dict.update({name: tensor.clone() for name, tensor in state_dict.items()})


def _is_clipped(layer: Linear) -> bool:
    within = re.sub(r"^.*\.layers\.\d+\.", "", layer.name)
    return not any(part in within for part in NOT_CLIPPED)


@contextlib.contextmanager
def _on_cpu() -> Iterator[None]:
    """Let autoawq quantize on the CPU of a machine that has a GPU, which it takes wherever torch tells of one."""
    import torch

    with _gptqmodel.replaced(torch.cuda, "is_available", lambda plain: lambda: False):
        yield
