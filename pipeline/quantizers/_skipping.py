"""Modules that a method which treats every linear layer, the lm_head too, is told to leave alone."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline import model_shape
from pipeline.checkpoint import Linear
from pipeline.model_shape import ModelShape
from pipeline.quantizers import QuantizeJob, module_name_problems, modules_named

LM_HEAD = "lm_head"


def problems(skip_modules: Sequence[str], model: ModelShape) -> list[str]:
    """Names that no module has, and a tied lm_head that is not left alone: its weights are the input embedding's.

    A name is a module's whole name or the last part of it.
    """
    found = module_name_problems("skip_modules", skip_modules, _modules(model))
    if model.lm_head is None and LM_HEAD not in skip_modules:
        found.append(
            f"skip_modules: put {LM_HEAD} in; it shares the input embedding's weights, which cannot be quantized for it"
        )
    everything = {layer.name for layer in model.all_linears}
    if everything and set(modules_named(skip_modules, model.all_linears)) == everything:
        found.append("skip_modules: nothing is left to quantize; take some out")
    return found


def full_names(job: QuantizeJob) -> list[str]:
    """Full names of the modules that `job.settings.skip_modules` means.

    Libraries take parts of names otherwise than meant here: transformers would skip `gate_up_proj` for `up_proj`.
    """
    return modules_named(job.settings.skip_modules, _modules(model_shape.read(job.base)))


def require_some(modules: Sequence[str], package: str, more: str = "") -> None:
    """That a library which looks for layers by their class found any: it leaves out others without a word.

    Raises:
        RuntimeError: it found none, so that the artifact would be the base itself.
    """
    if not modules:
        raise RuntimeError(
            f"{package} quantized no layer of this model: it does not know the class of its linear layers{more}; use "
            "another quantizer"
        )


def _modules(model: ModelShape) -> list[Linear]:
    """The linear layers with the lm_head, which may be named although it has no weights of its own."""
    return [*model.linears, model.lm_head or Linear(LM_HEAD, in_features=0, out_features=0)]
