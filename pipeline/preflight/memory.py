"""Estimates of the memory that quantizing and loading take, against what this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline import checkpoint, store
from pipeline.metrics.display import GIB, memory
from pipeline.params import Params
from pipeline.preflight import machine, model
from pipeline.preflight.texts import calibration_tokens, quantizer_settings
from pipeline.probes import hardware
from pipeline.quantizers import DTYPE_BYTES
from pipeline.records import Reading, known, missing

LIBRARIES_BYTES = 0.75 * GIB
"""What a worker takes before it loads a model: torch, transformers and a quantization library, as measured."""


@dataclass(frozen=True)
class Room:
    """Memory of the device that the workers run on."""

    of: str
    total_bytes: Reading
    free_bytes: Reading


def problems(settings: Params) -> Iterator[str]:
    """A base model whose weights alone are larger than all of the device's memory; nothing while it is out of reach."""
    parameters = parameter_count(settings)
    if parameters is None:
        return
    here = room(settings)
    needed = 2 * parameters
    if here.total_bytes.value is not None and needed > here.total_bytes.value:
        yield (
            f"memory: {parameters:,} weights of 2 bytes are {memory(needed)}, but {here.of} has "
            f"{memory(here.total_bytes.value)}; take a smaller model or a larger machine"
        )


def notes(settings: Params) -> Iterator[str]:
    """What each missing artifact is estimated to take while it is made, and then two models side by side."""
    parameters, base, folder = parameter_count(settings), model.shape(settings), model.checkpoint_folder(settings)
    if parameters is None or base is None or folder is None:
        return
    here, device = room(settings), machine.device_here(settings)
    for name, variant in settings.variants.items():
        if checkpoint.is_complete(store.artifact(name)):
            continue
        wanted = quantizer_settings(variant)
        parts = wanted.working_bytes(base, parameters, calibration_tokens(wanted, folder), device)
        if parts:
            yield f"variants.{name}: {estimate('memory for quantizing', {**parts, 'libraries': LIBRARIES_BYTES}, here)}"
    dtype = getattr(settings.runtime.compute_dtype, device)
    loaded = {
        f"baseline and variant in {dtype}, where neither is quantized": 2.0 * DTYPE_BYTES[dtype] * parameters,
        "libraries of two processes": 2 * LIBRARIES_BYTES,
    }
    yield f"benchmark: {estimate('two models loaded at once', loaded, here)}; where they do not fit, one at a time is"


def estimate(what: str, parts: dict[str, float], here: Room) -> str:
    """`parts` as a sum with its summands named, and how that compares with what is free."""
    needed = sum(parts.values())
    named = " + ".join(f"{memory(value)} {words}" for words, value in parts.items())
    free = here.free_bytes
    against = f"{memory(free.value)} of {here.of} are free" if free.value is not None else f"({free.reason})"
    verdict = "may not fit: " if free.value is not None and needed > free.value else ""
    return f"{verdict}{what}: {memory(needed)} by estimate ({named}); {against}"


def parameter_count(settings: Params) -> int | None:
    """Weights of the base model, from its tensors' shapes; None while they are out of reach."""
    folder = model.checkpoint_folder(settings)
    return None if folder is None else checkpoint.parameter_count(folder)


def room(settings: Params) -> Room:
    if machine.device_here(settings) == "cpu":
        return Room("this machine", known(hardware.memory_bytes()), known(hardware.available_bytes()))
    gpus, reason = hardware.gpus()
    total = known(gpus[0].memory_bytes) if gpus else missing(reason or hardware.NO_GPU)
    return Room("the GPU", total, hardware.gpu_free_bytes())
