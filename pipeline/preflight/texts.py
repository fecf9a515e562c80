"""The texts: eval sets, calibration sets, workloads, the fidelity text, and what the judge of free answers needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline import calibration, eval_sets, judge, overlap, plugins
from pipeline.eval_sets import card
from pipeline.judge_settings import key_problems
from pipeline.params import Params, Variant
from pipeline.preflight import model
from pipeline.quantizers import QuantizerSettings
from pipeline.scorers import SCORERS


def problems(settings: Params) -> Iterator[str]:
    """Every mistake in the texts, and in what scores the answers to them."""
    yield from text_problems(settings)
    yield from judge_problems(settings)


def notes(settings: Params) -> Iterator[str]:
    """Variants whose calibration text is shorter than their method wants; nothing while the model is out of reach."""
    folder, base = model.checkpoint_folder(settings), model.shape(settings)
    if folder is None or base is None:
        return
    for name, variant in settings.variants.items():
        wanted = quantizer_settings(variant)
        needed = wanted.tokens_needed(base)
        tokens = calibration_tokens(wanted, folder)
        if needed is not None and tokens < needed[0]:
            yield (
                f"variants.{name}.settings.calibration: about {tokens} tokens are fewer than {needed[0]}: {needed[1]}; "
                "more samples, or a larger max_tokens, are better"
            )


def calibration_tokens(wanted: QuantizerSettings, folder: Path) -> int:
    """About how many tokens a variant is calibrated on, by the tokenizer in `folder`; 0 where it needs no text."""
    asked: calibration.CalibrationSettings | None = getattr(wanted, "calibration", None)
    return 0 if asked is None else calibration.estimate_tokens(asked, folder)


def quantizer_settings(variant: Variant) -> QuantizerSettings:
    """The variant's settings as its quantizer reads them."""
    settings: QuantizerSettings = plugins.load("pipeline.quantizers", variant.quantizer).Settings.model_validate(
        variant.settings
    )
    return settings


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


def _calibrations(settings: Params) -> Iterator[tuple[str, calibration.CalibrationSettings]]:
    for name, variant in settings.variants.items():
        wanted = quantizer_settings(variant)
        if hasattr(wanted, "calibration"):
            yield name, wanted.calibration
