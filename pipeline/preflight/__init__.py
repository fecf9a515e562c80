"""Everything that can be found wrong in seconds, before any work, all at once; and what is worth knowing beforehand.

Nothing here imports torch or a quantization library: libraries are asked through their source (`pipeline.installed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline import params, plugins, store
from pipeline.errors import UserError
from pipeline.params import Params
from pipeline.preflight import disk, machine, memory, model, texts
from pipeline.toolchains import preflight as toolchains


@dataclass(frozen=True)
class Checked:
    settings: Params
    notes: list[str]
    """What does not stand in the way of a run, but is worth knowing before it: estimates, slow kernels."""


def problems(settings: Params) -> list[str]:
    """Every mistake in params.yaml and what it points to: source, eval sets, calibration, texts, layers, machine."""
    faulty_source = model.source_problems(settings)
    return [
        *faulty_source,
        *texts.problems(settings),
        *([] if faulty_source else [*model.layer_problems(settings), *model.context_problems(settings)]),
        *machine.problems(settings),
        *toolchains.problems(_toolchains(settings)),
        *([] if faulty_source else [*memory.problems(settings), *disk.problems(settings)]),
    ]


def notes(settings: Params) -> list[str]:
    """Words on what works but may disappoint, for settings without `problems`."""
    return [
        *texts.notes(settings),
        *machine.notes(settings),
        *toolchains.notes(_toolchains(settings)),
        *memory.notes(settings),
        *disk.notes(settings),
    ]


def after_base_problems(settings: Params) -> list[str]:
    """What can be told only once the base model is there, where its source did not tell it."""
    return [*model.layer_problems(settings), *memory.problems(settings), *disk.problems(settings)]


def check(path: Path = store.PARAMS) -> Checked:
    """Params, fully checked.

    Raises:
        UserError: with every mistake.
    """
    settings = params.load(path)
    found = problems(settings)
    if found:
        raise UserError(found)
    return Checked(settings, notes(settings))


def model_in_reach(settings: Params) -> bool:
    """Whether the base model's shape can be read yet."""
    return model.checkpoint_folder(settings) is not None


def _toolchains(settings: Params) -> list[str | None]:
    """`TOOLCHAIN` of every quantizer and engine that is used."""
    named = [("pipeline.quantizers", variant.quantizer) for variant in settings.variants.values()]
    named += [("pipeline.engines", variant.engine) for variant in settings.variants.values()]
    return [plugins.load(package, name).TOOLCHAIN for package, name in dict.fromkeys(named)]
