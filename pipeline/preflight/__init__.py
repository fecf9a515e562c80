"""Everything that can be found wrong in seconds, before any work, all at once; and what is worth knowing beforehand.

Nothing here imports torch or a quantization library: libraries are asked through their source (`pipeline.installed`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import named_files, params, plugins, store
from pipeline.errors import UserError
from pipeline.judge_settings import JudgeSettings
from pipeline.params import Model, Params, Runtime
from pipeline.preflight import disk, machine, memory, model, texts
from pipeline.toolchains import preflight as toolchains


@dataclass(frozen=True)
class Checked:
    settings: Params
    notes: list[str]
    """What does not stand in the way of a run, but is worth knowing before it: estimates, slow kernels."""


def problems(settings: Params) -> list[str]:
    """Every mistake in params.yaml and what it points to: source, eval sets, calibration, texts, layers, machine."""
    faulty_source = model.source_problems(settings.model)
    return [
        *faulty_source,
        *texts.problems(settings),
        *([] if faulty_source else _problems_of_the_base(settings)),
        *machine.problems(settings),
        *toolchains.problems(_toolchains(settings)),
        *([] if faulty_source else [*memory.problems(settings), *disk.problems(settings)]),
    ]


def _problems_of_the_base(settings: Params) -> list[str]:
    return [
        *model.layer_problems(settings),
        *model.context_problems(settings),
        *texts.short_sample_problems(settings),
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
    return [*_problems_of_the_base(settings), *memory.problems(settings), *disk.problems(settings)]


def check(path: Path = store.PARAMS) -> Checked:
    """Params, fully checked.

    Raises:
        UserError: with every mistake; where params.yaml itself has some, with those that can be found in spite of them.
    """
    raw = params.read(path)
    wrong = list(params.problems(raw))
    if wrong:
        raise UserError([*(f"{path}: {problem}" for problem in wrong), *_found_in_spite_of(wrong, raw)])
    settings = params.parse(raw)
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


def _found_in_spite_of(wrong: Sequence[str], raw: Any) -> Iterator[str]:
    """Mistakes in the files that a faulty params.yaml names, and in what those of its sections say that are right."""
    if not isinstance(raw, dict):
        return
    faulty = {re.split(r"[.:]", problem)[0] for problem in wrong}
    if "model" not in faulty:
        yield from model.source_problems(Model.model_validate(raw["model"]))
    files = named_files.named(raw)
    yield from named_files.problems(files)
    if "judge" not in faulty:
        yield from texts.judge_problems(files.eval_sets, raw["judge"] and JudgeSettings.model_validate(raw["judge"]))
    if "runtime" not in faulty:
        yield from machine.device_problems(Runtime.model_validate(raw["runtime"]))
