"""The texts: eval sets, calibration sets, workloads, the fidelity text, and what the judge of free answers needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline import calibration, judge, named_files, plugins
from pipeline.eval_sets import card
from pipeline.judge_settings import JudgeSettings, key_problems
from pipeline.params import Params, Variant
from pipeline.preflight import model
from pipeline.quantizers import QuantizerSettings
from pipeline.scorers import SCORERS


def problems(settings: Params) -> Iterator[str]:
    """Every mistake in the texts, and in what scores the answers to them."""
    yield from named_files.problems(named_files.named(settings.model_dump()))
    yield from judge_problems(settings.eval_sets, settings.judge)


def short_sample_problems(settings: Params) -> Iterator[str]:
    """Sets that are large enough only with samples that are too short; nothing while the model is out of reach."""
    folder = model.checkpoint_folder(settings)
    if folder is None:
        return
    for name, variant in settings.variants.items():
        asked: calibration.CalibrationSettings | None = getattr(quantizer_settings(variant), "calibration", None)
        if asked is None or calibration.set_problems(asked.set):
            continue
        have = len(calibration.texts(asked.set))
        usable = have - calibration.too_short(asked.set, folder)
        if usable < asked.samples <= have:
            yield (
                f"variants.{name}.settings.calibration.samples: {asked.samples} asked for, but only {usable} of the "
                f"{have} in set {asked.set} have at least {calibration.MIN_TOKENS} tokens"
            )


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
