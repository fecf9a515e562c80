"""The base model: its source, its shape, and what each variant's settings make of it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

from pipeline import checkpoint, installed, model_shape, plugins, store
from pipeline.errors import UserError, brief
from pipeline.model_shape import KEY_VALUE, ROW_PARALLEL, ModelShape
from pipeline.params import Model, Params, Variant


def source_problems(model: Model) -> list[str]:
    kind, wanted = model.source_settings()
    source = plugins.load("pipeline.sources", kind)
    return list(source.problems(source.Settings.model_validate(wanted)))


def checkpoint_folder(settings: Params) -> Path | None:
    """A folder whose layer shapes are the base model's: its source, where that is a folder, else the base itself."""
    kind, wanted = settings.model.source_settings()
    source = plugins.load("pipeline.sources", kind)
    folder: Path | None = source.checkpoint_folder(source.Settings.model_validate(wanted))
    if folder is not None:
        return folder
    return store.BASE if checkpoint.is_complete(store.BASE) else None


def shape(settings: Params) -> ModelShape | None:
    """The base model's shape as it will be served; None while it is out of reach."""
    folder = checkpoint_folder(settings)
    return None if folder is None else model_shape.read(folder, settings.serving.tensor_parallel)


def layer_problems(settings: Params) -> list[str]:
    """What each quantizer says of the base model, and what serving it on several devices asks of it.

    Nothing while its shape is out of reach.
    """
    base = shape(settings)
    if base is None:
        return []
    found = [*_architecture_problems(base), *_layout_problems(base), *_tensor_parallel_problems(base)]
    for name, variant in settings.variants.items():
        found += _settings_problems(name, variant, base)
    return found


def _settings_problems(name: str, variant: Variant, base: ModelShape) -> list[str]:
    quantizer = plugins.load("pipeline.quantizers", variant.quantizer)
    wanted = quantizer.Settings.model_validate(variant.settings)
    place = f"pipeline/quantizers/{variant.quantizer}.py: check"
    try:
        found = quantizer.check(wanted, base)
        if isinstance(found, str) or not all(isinstance(problem, str) for problem in found):
            return [f"{place} must return a list of texts, got {found!r} for variants.{name}"]
    except UserError:
        raise
    except Exception as error:
        # A new file is most likely to break here, and its author needs the place more than the way to it.
        last = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{place} fails for variants.{name}: {brief(error)} ({Path(last.filename).name}, line {last.lineno})"]
    return [f"variants.{name}.settings.{problem}" for problem in found]


def _architecture_problems(base: ModelShape) -> Iterator[str]:
    known = installed.table_keys("transformers", "models/auto/modeling_auto.py", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")
    if known and base.model_type not in known:
        yield (
            f"model: transformers has no causal language model of type {base.model_type!r} (config.json, model_type); "
            "give another model, or install a transformers that has it"
        )


def _layout_problems(base: ModelShape) -> Iterator[str]:
    if not base.linears:
        yield (
            "model: its layers cannot be told from its tensors, since none is a matrix named `weight` in a numbered "
            "block, as in `model.layers.0.mlp.up_proj.weight`; give a checkpoint as save_pretrained of transformers "
            "writes it"
        )


def _tensor_parallel_problems(base: ModelShape) -> Iterator[str]:
    devices = base.tensor_parallel
    if devices == 1:
        return
    if base.attention_heads is not None and base.attention_heads % devices:
        yield f"serving.tensor_parallel: {devices} does not divide the model's {base.attention_heads} attention heads"
    shared = base.kv_heads
    copied = shared is not None and devices > shared and devices % shared == 0
    if shared is not None and shared % devices and not copied:
        yield (
            f"serving.tensor_parallel: {devices} neither divides the model's {shared} key-value heads nor is a "
            "multiple of them"
        )
    uneven = {}
    for layer in reversed(base.linears):
        leaf = layer.name.rsplit(".", 1)[-1]
        if copied and leaf in KEY_VALUE:
            # Each device holds a whole head, together with others (docs.vllm.ai, "Parallelism and Scaling").
            continue
        side, size = ("input", layer.in_features) if leaf in ROW_PARALLEL else ("output", layer.out_features)
        if size % devices:
            uneven[leaf] = f"{layer.name} has {size} {side} features"
    if uneven:
        yield f"serving.tensor_parallel: {devices} does not divide every layer: {'; '.join(sorted(uneven.values()))}"


def context_problems(settings: Params) -> list[str]:
    folder = checkpoint_folder(settings)
    if folder is None:
        return []
    context = checkpoint.context_length(folder)
    found = [
        f"benchmark.workloads.{name}: {workload.prompt_tokens} prompt and {workload.output_tokens} output tokens "
        f"exceed the model's context of {context}"
        for name, workload in settings.benchmark.workloads.items()
        if workload.prompt_tokens + workload.output_tokens > context
    ]
    window = settings.fidelity.window_tokens
    if window > context:
        found.append(f"fidelity.window_tokens: {window} exceeds the model's context of {context}")
    return found
