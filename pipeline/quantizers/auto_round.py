"""AutoRound: rounding and ranges of each block tuned together by signed gradient descent (Cheng et al. 2024, "Optimize
weight rounding via signed gradient descent for the quantization of LLMs").

Stored in the GPTQ checkpoint format, so that the same kernels run it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from pydantic import Field

from pipeline import checkpoint, model_shape, store
from pipeline.calibration import CalibrationSettings
from pipeline.errors import UserError
from pipeline.model_shape import ModelShape
from pipeline.quantizers import Quantized, QuantizeJob, _gptqmodel, modules_named

FORMAT = "gptq"
PACKAGES = ("auto-round", "transformers", "torch")
ENVIRONMENT: Mapping[str, str] = {}
TOOLCHAIN = None


class Settings(_gptqmodel.GridSettings):
    """Names are AutoRound's own where it has one."""

    iters: int = Field(default=200, ge=1)
    """Steps of descent per block: 1000 where time allows, 50 for a quick try."""
    lr: float | None = Field(default=None, gt=0)
    """Step size; None: 1 / iters."""
    minmax_lr: float | None = Field(default=None, gt=0)
    """Step size of the ranges; None: as `lr`."""
    enable_minmax_tuning: bool = True
    """Whether ranges are tuned too, not the rounding alone."""
    enable_quanted_input: bool = True
    """Whether a block is tuned on what the quantized blocks before it give, not on what the base's give."""
    batch_size: int = Field(default=8, ge=1)
    """Windows per step: more need more memory."""
    window_tokens: int = Field(default=256, ge=2)
    """All calibration samples are joined and cut into windows of so many tokens, as AutoRound needs equally long ones;
    what is left at the end is not used."""
    calibration: CalibrationSettings

    def tokens_needed(self, model: ModelShape) -> tuple[int, str]:
        return self.window_tokens, "they may not fill one window (window_tokens), without which nothing can be tuned"

    def working_bytes(self, model: ModelShape, parameters: int, tokens: int, device: str) -> dict[str, float]:
        width = model.hidden_size or model.widest_input
        return {
            "weights in 16 bits": 2.0 * parameters,
            "all windows' input and output of a block": 3.0 * 2 * tokens * width,
        }


def check(settings: Settings, model: ModelShape) -> list[str]:
    found = _gptqmodel.layer_problems(settings, model)
    most = settings.calibration.samples * settings.calibration.max_tokens
    if most < settings.window_tokens:
        found.append(f"window_tokens {settings.window_tokens}: the calibration samples have {most} tokens at most")
    if model.context_length is not None and settings.window_tokens > model.context_length:
        found.append(f"window_tokens {settings.window_tokens}: exceeds the model's context of {model.context_length}")
    return found


def quantize(job: QuantizeJob) -> Quantized:
    """Quantize as in the module's words. Importing AutoRound changes transformers, so this needs its own process.

    Raises:
        UserError: the calibration samples do not fill one window.
    """
    import torch
    from auto_round import AutoRound
    from transformers import AutoModelForCausalLM, AutoTokenizer

    settings: Settings = job.settings
    windows = cut(job.calibration, settings.window_tokens)
    ids = [torch.tensor([window]) for window in windows]
    skipped = modules_named(settings.skip_modules, model_shape.read(job.base).linears)
    tuning = AutoRound(
        AutoModelForCausalLM.from_pretrained(job.base, dtype=torch.float16, local_files_only=True),
        AutoTokenizer.from_pretrained(job.base, local_files_only=True),
        bits=settings.bits,
        group_size=settings.group_size,
        sym=settings.sym,
        iters=settings.iters,
        lr=settings.lr,
        minmax_lr=settings.minmax_lr,
        enable_minmax_tuning=settings.enable_minmax_tuning,
        enable_quanted_input=settings.enable_quanted_input,
        batch_size=min(settings.batch_size, len(windows)),
        seqlen=settings.window_tokens,
        nsamples=len(windows),
        # A mask of its own: the one that AutoRound makes leaves out pad tokens, which here may end each chat message.
        dataset=[{"input_ids": window, "attention_mask": torch.ones_like(window)} for window in ids],
        device_map=job.device,
        layer_config={name: {"bits": 16} for name in skipped} or None,
        enable_torch_compile=False,
        low_cpu_mem_usage=False,
        seed=job.seed,
    )
    tuning.quantize_and_save(str(job.out), format="auto_gptq")
    _lift(job.out)
    _restore(job.out, job.base)
    suffix = ".qweight"
    modules = [name.removesuffix(suffix) for name in checkpoint.tensor_shapes(job.out) if name.endswith(suffix)]
    if skipped:
        # Without it transformers would look for packed weights in every layer.
        _gptqmodel.add_to_config(job.out, {"modules_in_block_to_quantize": [sorted(modules)]})
    return Quantized(modules)


def cut(samples: Sequence[Sequence[int]], window: int) -> list[list[int]]:
    """The samples' tokens, joined, in windows of that many; what does not fill one at the end is left out.

    Raises:
        UserError: they do not fill one window.
    """
    tokens = list(chain.from_iterable(samples))
    windows = [tokens[start : start + window] for start in range(0, len(tokens) - window + 1, window)]
    if not windows:
        raise UserError(
            f"settings.window_tokens is {window}, but the calibration samples have only {len(tokens)} tokens; lower "
            "it, or take more samples"
        )
    return windows


def _lift(folder: Path) -> None:
    """Move what AutoRound put into a folder named after the model up to where it was wanted.

    Leaves out quantization_config.json, which repeats a part of config.json.
    """
    [made] = {path.parent for path in folder.rglob("config.json")} - {folder} or {folder}
    if made != folder:
        for path in made.iterdir():
            shutil.move(path, folder / path.name)
        made.rmdir()
    (folder / "quantization_config.json").unlink(missing_ok=True)


def _restore(folder: Path, base: Path) -> None:
    """Give the tensors that were left unquantized the base's own values: on a CPU AutoRound rounds them to bfloat16."""
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    for made in sorted(folder.glob("*.safetensors")):
        tensors = load_file(made)
        for path in sorted(base.glob("*.safetensors")):
            with safe_open(path, "pt") as file:
                tensors |= {name: file.get_tensor(name) for name in tensors.keys() & set(file.keys())}
        save_file(tensors, made, {"format": "pt"})
    config = store.read_json(folder / "config.json")
    store.write_json(folder / "config.json", {**config, "dtype": checkpoint.config(base).get("dtype", "float16")})
