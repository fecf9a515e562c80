"""What auto_gptq and autoawq share: an old transformers must read the base, and today's engines must read the result.

Both packages are archived and work with transformers 4 only, so they run in an environment of their own. Of each, the
quantization and the packing are used as they are. Loading and saving are done here, since

- transformers 4 reads a config.json of transformers 5 without an error and gets it wrong (see `older_config`),
- auto-gptq stores a bias of zeros for every layer that has none, and tied weights twice,
- both write several entries of safetensors metadata in random order, so that equal weights would differ in their hash.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline import checkpoint, store
from pipeline.model_shape import ModelShape
from pipeline.quantizers import QuantizeJob

WORKING_DTYPE: Mapping[str, str] = {"cpu": "float32", "cuda": "float16"}
"""What the model computes in meanwhile; float16 has few kernels on a CPU. The artifact holds float16 in any case."""

OLDER_NAMES: Mapping[str, tuple[str, ...]] = {
    "rope_theta": ("rope_theta", "rotary_emb_base"),
    "partial_rotary_factor": ("partial_rotary_factor", "rotary_pct"),
}
"""Parameters of rotary embeddings, and the top-level names that the models of transformers 4 gave them."""

PACKED = (".qweight", ".qzeros", ".scales", ".g_idx")


def model_type_problems(model: ModelShape, known: Collection[str], package: str, successor: str) -> list[str]:
    if model.model_type in known:
        return []
    return [
        f"calibration: {package} does not know the model type {model.model_type!r} of config.json, only "
        f"{', '.join(sorted(known))}; use {successor}"
    ]


def load(job: QuantizeJob) -> Any:
    """The base model in transformers 4 on the CPU, from where both packages take it layer by layer.

    Raises:
        ValueError: see `older_config`, or transformers 4 finds other weights in the checkpoint than it needs.
    """
    import torch
    from transformers import AutoModelForCausalLM

    with older_checkpoint(job.base) as folder:
        model, info = AutoModelForCausalLM.from_pretrained(
            folder,
            torch_dtype=getattr(torch, WORKING_DTYPE[job.device]),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    if faults := checkpoint.faults_on_loading(info):
        raise ValueError(f"transformers 4 would change the base model on loading: {faults}")
    # As autoawq's own from_pretrained sets it: else every pass of its search would go on in the same cache.
    model.config.use_cache = False
    return model.eval()


@contextmanager
def older_checkpoint(base: Path) -> Iterator[Path]:
    """A folder from which transformers 4 loads the same model as transformers 5 does from `base`; gone afterwards.

    Holds the config and links to the weights. There is no tokenizer in it: calibration samples come as token ids.

    Raises:
        ValueError: see `older_config`.
    """
    with tempfile.TemporaryDirectory(prefix="quantgate-base-") as name:
        folder = Path(name)
        store.write_json(folder / "config.json", older_config(checkpoint.config(base)))
        for path in (*base.glob("*.safetensors"), *base.glob("*.safetensors.index.json")):
            (folder / path.name).symlink_to(path.resolve())
        yield folder


def older_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json as transformers 5 writes it → as transformers 4 reads it.

    `dtype` was `torch_dtype`. What is `rope_parameters` now stood at the top level, but for the parameters of scaled
    rotary embeddings, which were `rope_scaling`. transformers 4 takes its defaults for what it does not find, so that
    the model would be another one without a word.

    Raises:
        ValueError: the rotary embedding differs between layers, for which transformers 4 had no common form.
    """
    older = {name: value for name, value in config.items() if name not in ("dtype", "rope_parameters")}
    if "dtype" in config:
        older["torch_dtype"] = config["dtype"]
    rope = dict(config.get("rope_parameters") or {})
    nested = [name for name, value in rope.items() if isinstance(value, dict)]
    if nested:
        raise ValueError(
            f"config.json of the base model has rope_parameters for each of {', '.join(nested)}, but the archived "
            "packages' transformers 4 reads one set for all layers only; use gptqmodel_gptq or gptqmodel_awq"
        )
    for name, names in OLDER_NAMES.items():
        if name in rope:
            older.update(dict.fromkeys(names, rope.pop(name)))
    kind = rope.pop("rope_type", "default")
    if kind == "longrope" and "original_max_position_embeddings" in rope:
        # The one scaling whose length stood elsewhere; phi3 refuses more than type and factors.
        older["original_max_position_embeddings"] = rope.pop("original_max_position_embeddings")
    if kind != "default":
        # All models of transformers 4 read `type`, and give it the other name themselves.
        older["rope_scaling"] = {"type": kind, **rope}
    return older


def tensor_names(model: Any) -> frozenset[str]:
    """Names of the tensors that a checkpoint of `model` needs: all but those tied to another."""
    tied = set(model._tied_weights_keys or ()) if model.config.tie_word_embeddings else set()
    return frozenset(model.state_dict()) - tied


def save(
    model: Any, unquantized: Collection[str], quantization_config: Mapping[str, Any], job: QuantizeJob
) -> list[str]:
    """Write the quantized `model` as a float16 checkpoint into `job.out`; returns the names of its quantized modules.

    `unquantized` names the tensors there were before. The config is the base's own, with `quantization_config`.
    """
    from huggingface_hub import save_torch_state_dict

    tensors = model.half().state_dict()
    modules = [name.removesuffix(".qweight") for name in tensors if name.endswith(".qweight")]
    wanted = {*unquantized, *(module + part for module in modules for part in PACKED)}
    save_torch_state_dict({name: tensor for name, tensor in tensors.items() if name in wanted}, job.out)
    config = {**checkpoint.config(job.base), "dtype": "float16", "quantization_config": dict(quantization_config)}
    store.write_json(job.out / "config.json", config)
    return modules
