"""The eval sets, calibration sets and texts that params.yaml names: what is wrong with them, and between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import calibration, eval_sets, overlap
from pipeline.params_checks import NAME, mapping


@dataclass(frozen=True)
class Named:
    eval_sets: tuple[str, ...]
    calibration: Mapping[str, Mapping[str, Any]]
    """The calibration settings of each variant that names a set."""
    workload_texts: Mapping[str, str]
    fidelity_text: str | None
    """None where params.yaml has no path there."""


def named(raw: Mapping[str, Any]) -> Named:
    """What the raw value of params.yaml names, as far as it can be read: a mistake in one part hides no other part."""
    variants, workloads = mapping(raw, "variants"), mapping(raw, "benchmark", "workloads")
    calibrations = {name: mapping(variants, name, "settings", "calibration") for name in variants}
    texts = {name: mapping(workloads, name) for name in workloads}
    fidelity = mapping(raw, "fidelity").get("text")
    return Named(
        eval_sets=tuple(name for name in mapping(raw, "eval_sets") if NAME.fullmatch(str(name))),
        calibration={name: wanted for name, wanted in calibrations.items() if isinstance(wanted.get("set"), str)},
        workload_texts={name: text["text"] for name, text in texts.items() if isinstance(text.get("text"), str)},
        fidelity_text=fidelity if isinstance(fidelity, str) else None,
    )


def problems(files: Named) -> Iterator[str]:
    """Every mistake in the files; what two of them share is looked for where both can be read."""
    sets = {name: eval_sets.problems(name) for name in files.eval_sets}
    wanted = sorted({settings["set"] for settings in files.calibration.values()})
    calibrations = {name: calibration.set_problems(name) for name in wanted}
    for found in (*sets.values(), *calibrations.values()):
        yield from found
    for name, text in files.workload_texts.items():
        if not Path(text).is_file():
            yield f"benchmark.workloads.{name}.text: no file {text}"
    readable = [name for name, found in calibrations.items() if not found]
    yield from _sample_problems(files, readable)
    for name in readable:
        yield from overlap.leaks(name, [eval_set for eval_set, found in sets.items() if not found])
    if files.fidelity_text is not None:
        yield from _fidelity_problems(Path(files.fidelity_text), readable)


def _sample_problems(files: Named, readable: list[str]) -> Iterator[str]:
    have = {name: len(calibration.texts(name)) for name in readable}
    for variant, settings in files.calibration.items():
        name, samples = settings["set"], settings.get("samples")
        if name in have and isinstance(samples, int) and samples > have[name]:
            yield (
                f"variants.{variant}.settings.calibration.samples: {samples} asked for, but set {name} has {have[name]}"
            )


def _fidelity_problems(path: Path, calibration_sets: list[str]) -> Iterator[str]:
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
