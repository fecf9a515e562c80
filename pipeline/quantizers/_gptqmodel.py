"""What the GPTQModel quantizers share: group sizes, worker environment, the load → quantize → save walk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline import checkpoint, progress, store
from pipeline.quantizers import Quantized, QuantizeJob

PACKAGES = ("gptqmodel", "transformers", "torch")

GROUP_SIZES = (-1, 16, 32, 64, 128, 256, 512, 1024)
"""The sizes GPTQModel's kernels know."""

CALIBRATION_MIN_TOKENS = 10

ENVIRONMENT: Mapping[str, str] = {
    # On two cores GPTQModel gives the CPU one worker and then asks it for two.
    "GPTQMODEL_CPU_WORKERS": "2",
}


def quantize(job: QuantizeJob, config: Any, backend: Any, dtype: str) -> Quantized:
    """Quantize `job.base` by a GPTQModel config into `job.out`; tells which modules it quantized.

    `dtype` is what the model computes in meanwhile; the artifact's unquantized tensors are float16 in any case.
    """
    import torch
    from gptqmodel import GPTQModel
    from transformers import AutoTokenizer

    torch.manual_seed(job.seed)
    tokenizer = AutoTokenizer.from_pretrained(job.base, local_files_only=True)
    model = GPTQModel.load(
        str(job.base), config, device=job.device, dtype=getattr(torch, dtype), trust_remote_code=False
    )
    model.layer_callback = _LayerProgress(model.model.config.num_hidden_layers)
    model.quantize(
        [{"input_ids": list(ids), "attention_mask": [1] * len(ids)} for ids in job.calibration],
        tokenizer=tokenizer,
        batch_size=1,
        backend=backend,
        calibration_data_min_length=CALIBRATION_MIN_TOKENS,
    )
    model.save(str(job.out))
    _store_as_float16(job.out)
    _remove_run_details(job.out)
    suffix = ".qweight"
    names = checkpoint.tensor_shapes(job.out)
    return Quantized([name.removesuffix(suffix) for name in names if name.endswith(suffix)])


class _LayerProgress:
    """Told by GPTQModel when a decoder layer is done."""

    def __init__(self, layers: int) -> None:
        self._layers = layers

    def layer_complete(self, *, layer_idx: int, submodule_finalized: bool) -> None:
        if submodule_finalized:
            progress.report(layer_idx + 1, self._layers, "layers")


def _store_as_float16(folder: Path) -> None:
    """Cast the float32 tensors that were left unquantized back to the base's float16."""
    import torch
    from safetensors.torch import load_file, save_file

    for path in sorted(folder.glob("*.safetensors")):
        tensors = load_file(path)
        if any(tensor.dtype is torch.float32 for tensor in tensors.values()):
            halved = {
                name: tensor.to(torch.float16) if tensor.dtype is torch.float32 else tensor
                for name, tensor in tensors.items()
            }
            save_file(halved, path, metadata={"format": "pt"})
    config = store.read_json(folder / "config.json")
    store.write_json(folder / "config.json", {**config, "dtype": "float16"})


def _remove_run_details(folder: Path) -> None:
    """Drop timings and the temporary folder's name, which would give equal weights a new hash at every run."""
    (folder / "quant_log.csv").unlink(missing_ok=True)
    for name in ("config.json", "quantize_config.json"):
        value = store.read_json(folder / name)
        value.get("quantization_config", value).get("meta", {}).pop("offload_to_disk_path", None)
        store.write_json(folder / name, value)
