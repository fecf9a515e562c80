"""Everything that can be found wrong in seconds, before any work, all at once."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline import checkpoint, judge, named_files, params, plugins, store
from pipeline.errors import UserError
from pipeline.eval_sets import card
from pipeline.judge_settings import JudgeSettings, key_problems
from pipeline.params import Model, Params, Runtime
from pipeline.probes import hardware, placement
from pipeline.report.breakdown.words import counted
from pipeline.scorers import SCORERS

DISK_MARGIN = 1.2


def problems(settings: Params) -> list[str]:
    """Every mistake in what params.yaml points to: source, eval sets, calibration, texts, layers, disk."""
    faulty_source = source_problems(settings.model)
    return [
        *faulty_source,
        *named_files.problems(named_files.named(settings.model_dump())),
        *judge_problems(settings.eval_sets, settings.judge),
        *([] if faulty_source else [*layer_problems(settings), *context_problems(settings)]),
        *device_problems(settings.runtime),
        *disk_problems(settings),
    ]


def source_problems(model: Model) -> list[str]:
    kind, wanted = model.source_settings()
    source = plugins.load("pipeline.sources", kind)
    return list(source.problems(source.Settings.model_validate(wanted)))


def judge_problems(names: Iterable[str], settings: JudgeSettings | None) -> Iterator[str]:
    """What is wrong with the judge of the categories that need one; nothing where none does."""
    readable = [name for name in names if not card.card_problems(name)]
    judged = [
        (name, category)
        for name in readable
        for category, asked in card.read_card(name).categories.items()
        if SCORERS[asked.scorer].score is None
    ]
    for name in dict.fromkeys(name for name, _ in judged):
        yield from judge.label_problems(name)
    if judged and settings is not None:
        yield from key_problems(settings)
        return
    for name, category in judged:
        yield (
            f"eval set {name}, category {category}: answers are scored by a language model, but `judge` in params.yaml "
            "is null; describe one there (at least base_url and model), or take the set out of eval_sets"
        )


def layer_problems(settings: Params) -> list[str]:
    """What each quantizer says of the base model's layers; nothing while their shapes are out of reach."""
    folder = checkpoint_folder(settings)
    if folder is None:
        return []
    linears = checkpoint.linears(folder)
    found = []
    for name, variant in settings.variants.items():
        quantizer = plugins.load("pipeline.quantizers", variant.quantizer)
        wanted = quantizer.Settings.model_validate(variant.settings)
        found += [f"variants.{name}.settings.{problem}" for problem in quantizer.check(wanted, linears)]
    return found


def checkpoint_folder(settings: Params) -> Path | None:
    """A folder whose layer shapes are the base model's: its source, where that is a folder, else the base itself."""
    kind, wanted = settings.model.source_settings()
    source = plugins.load("pipeline.sources", kind)
    folder: Path | None = source.checkpoint_folder(source.Settings.model_validate(wanted))
    if folder is not None:
        return folder
    return store.BASE if checkpoint.is_complete(store.BASE) else None


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


def device_problems(runtime: Runtime) -> list[str]:
    """`cuda` asked for where the driver shows no GPU, or cores that are not there."""
    cores = placement.problem(runtime.cores)
    found = [cores] if cores else []
    if runtime.device != "cuda":
        return found
    gpus, reason = hardware.gpus()
    return (
        found if gpus else [*found, f"runtime.device: cuda, but there is no GPU here ({reason}); set it to auto or cpu"]
    )


def disk_problems(settings: Params) -> list[str]:
    """Room for the artifacts that are missing, each as large as the base at most, and again for the DVC cache."""
    if not checkpoint.is_complete(store.BASE):
        return []
    base_bytes = checkpoint.read_manifest(store.BASE).weight_bytes
    absent = [name for name in settings.variants if not checkpoint.is_complete(store.artifact(name))]
    needed = int(2 * len(absent) * base_bytes * DISK_MARGIN)
    free = shutil.disk_usage(store.BASE).free
    if needed <= free:
        return []
    return [
        f"disk: {counted(len(absent), 'artifact', 'artifacts')} and the DVC cache may need {needed / 2**30:.1f} GiB, "
        f"but only {free / 2**30:.1f} GiB are free; make room, remove variants, or move the cache with `dvc cache dir`"
    ]


def require(settings: Params) -> None:
    found = problems(settings)
    if found:
        raise UserError(found)


def check(path: Path = store.PARAMS) -> Params:
    """Params, fully checked.

    Raises:
        UserError: with every mistake; where params.yaml itself has some, with those that can be found in spite of them.
    """
    raw = params.read(path)
    wrong = list(params.problems(raw))
    if wrong:
        raise UserError([*(f"{path}: {problem}" for problem in wrong), *_found_in_spite_of(wrong, raw)])
    settings = params.parse(raw)
    require(settings)
    return settings


def _found_in_spite_of(wrong: Sequence[str], raw: Any) -> Iterator[str]:
    """Mistakes in the files that a faulty params.yaml names, and in what those of its sections say that are right."""
    if not isinstance(raw, dict):
        return
    faulty = {re.split(r"[.:]", problem)[0] for problem in wrong}
    if "model" not in faulty:
        yield from source_problems(Model.model_validate(raw["model"]))
    files = named_files.named(raw)
    yield from named_files.problems(files)
    if "judge" not in faulty:
        yield from judge_problems(files.eval_sets, raw["judge"] and JudgeSettings.model_validate(raw["judge"]))
    if "runtime" not in faulty:
        yield from device_problems(Runtime.model_validate(raw["runtime"]))
