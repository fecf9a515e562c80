"""Everything that can be found wrong in seconds, before any work, all at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline import calibration, checkpoint, eval_sets, judge, overlap, params, plugins, store
from pipeline.errors import UserError
from pipeline.eval_sets import card
from pipeline.judge_settings import key_problems
from pipeline.params import Params
from pipeline.probes import hardware, placement
from pipeline.scorers import SCORERS

DISK_MARGIN = 1.2


def problems(settings: Params) -> list[str]:
    """Every mistake in what params.yaml points to: source, eval sets, calibration, texts, layers, disk."""
    faulty_source = source_problems(settings)
    return [
        *faulty_source,
        *text_problems(settings),
        *judge_problems(settings),
        *([] if faulty_source else [*layer_problems(settings), *context_problems(settings)]),
        *device_problems(settings),
        *disk_problems(settings),
    ]


def source_problems(settings: Params) -> list[str]:
    kind, wanted = settings.model.source_settings()
    source = plugins.load("pipeline.sources", kind)
    return list(source.problems(source.Settings.model_validate(wanted)))


def text_problems(settings: Params) -> Iterator[str]:
    faulty = [problem for name in settings.eval_sets for problem in eval_sets.problems(name)]
    sets = sorted({wanted.set for _, wanted in _calibrations(settings)})
    faulty += [problem for name in sets for problem in calibration.set_problems(name)]
    yield from faulty
    for name, workload in settings.benchmark.workloads.items():
        if not Path(workload.text).is_file():
            yield f"benchmark.workloads.{name}.text: no file {workload.text}"
    if not faulty:
        for variant, wanted in _calibrations(settings):
            have = len(calibration.texts(wanted.set))
            if wanted.samples > have:
                yield (
                    f"variants.{variant}.settings.calibration.samples: {wanted.samples} asked for, but set "
                    f"{wanted.set} has {have}"
                )
        for calibration_set in sets:
            yield from overlap.leaks(calibration_set, settings.eval_sets)
    yield from _fidelity_problems(settings, [] if faulty else sets)


def _fidelity_problems(settings: Params, calibration_sets: Sequence[str]) -> Iterator[str]:
    path = Path(settings.fidelity.text)
    if not path.is_file():
        yield f"fidelity.text: no file {path}"
        return
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        yield f"fidelity.text: {path} is not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        return
    for name in calibration_sets:
        shared = overlap.first_shared(text, overlap.calibration_runs(name))
        if shared:
            yield (
                f"fidelity.text: {shared!r} stands both in {path} and in calibration set {name}, which "
                "would flatter what was calibrated on it; change one of them"
            )


def judge_problems(settings: Params) -> Iterator[str]:
    """What is wrong with the judge of the categories that need one; nothing where none does."""
    readable = [name for name in settings.eval_sets if not card.card_problems(name)]
    judged = [
        (name, category)
        for name in readable
        for category, asked in card.read_card(name).categories.items()
        if SCORERS[asked.scorer].score is None
    ]
    for name in dict.fromkeys(name for name, _ in judged):
        yield from judge.label_problems(name)
    if judged and settings.judge is not None:
        yield from key_problems(settings.judge)
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


def device_problems(settings: Params) -> list[str]:
    """`cuda` asked for where the driver shows no GPU, or cores that are not there."""
    cores = placement.problem(settings.runtime.cores)
    found = [cores] if cores else []
    if settings.runtime.device != "cuda":
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
        f"disk: {len(absent)} artifacts and their DVC cache may need {needed / 2**30:.1f} GiB, but only "
        f"{free / 2**30:.1f} GiB are free; make room, remove variants, or move the cache with `dvc cache dir`"
    ]


def _calibrations(settings: Params) -> Iterator[tuple[str, calibration.CalibrationSettings]]:
    for name, variant in settings.variants.items():
        wanted = plugins.load("pipeline.quantizers", variant.quantizer).Settings.model_validate(variant.settings)
        if hasattr(wanted, "calibration"):
            yield name, wanted.calibration


def require(settings: Params) -> None:
    found = problems(settings)
    if found:
        raise UserError(found)


def check(path: Path = store.PARAMS) -> Params:
    """Params, fully checked. Raises UserError with every mistake."""
    settings = params.load(path)
    require(settings)
    return settings
