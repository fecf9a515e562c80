"""What would mislead a reader of the report who did not know it."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.metrics import validity
from pipeline.params import Params
from pipeline.quality_records import Flaw
from pipeline.records import Status
from pipeline.report import conditions
from pipeline.report.breakdown import pairing
from pipeline.report.breakdown.words import counted
from pipeline.report.gather import Gathered

FLOOR = 0.05
"""A baseline that scores under this share, or over 1 minus it, cannot show what a variant loses."""
NAMED_STRAYS = 3


def of(params: Params, gathered: Gathered) -> list[str]:
    """Most important first."""
    return [
        *_dequantized(params, gathered),
        *_cpu(gathered),
        *_invalid(gathered),
        *_biased(gathered),
        *_imprecise(params, gathered),
        *_floor_or_ceiling(gathered),
        *_strays(gathered),
    ]


def _dequantized(params: Params, gathered: Gathered) -> Iterator[str]:
    provenance = conditions.base(params, gathered).provenance
    if "de-quantized" in provenance.lower() or "dequantized" in provenance.lower():
        yield f"The baseline is not an original full-precision model. {provenance}"


def _cpu(gathered: Gathered) -> Iterator[str]:
    devices = {engine.device for engine in conditions.engines_used(gathered)}
    if devices and not any(device.startswith("cuda") for device in devices):
        yield (
            "Measured on a CPU: quality carries over to a GPU, speed and memory do not, and a kernel that is slow "
            "here may be the fastest there."
        )


def _invalid(gathered: Gathered) -> Iterator[str]:
    for evidence in gathered.variants:
        reasons = validity.record_reasons(evidence.speed) if evidence.speed.status is Status.OK else []
        if reasons:
            yield f"The times and speed-ups of {evidence.variant} are INVALID: {'; '.join(reasons)}."


def _biased(gathered: Gathered) -> Iterator[str]:
    for evidence in gathered.variants:
        floor = pairing.biased(evidence)
        if floor:
            yield (
                f"The baseline against itself is {floor}, an interval without 1: this machine favours one of two "
                "processes, so a speed-up of that size is no evidence."
            )


def _imprecise(params: Params, gathered: Gathered) -> Iterator[str]:
    widths = {evidence.variant: pairing.imprecise(evidence, params) for evidence in gathered.variants}
    wide = ", ".join(f"{variant} (± {100 * width:.0f} %)" for variant, width in widths.items() if width is not None)
    if wide:
        yield (
            f"Speed-ups known less well than the ± {100 * params.benchmark.pairing.half_width:g} % asked for, when the "
            f"measurement ended: {wide}. Gates on the speed-up and the ranking by speed use the intervals."
        )


def _floor_or_ceiling(gathered: Gathered) -> Iterator[str]:
    """A baseline that fails or passes nearly everything cannot show what a variant loses."""
    baseline = next(evidence for evidence in gathered.variants if evidence.is_baseline)
    for scored in baseline.quality:
        overall = scored.record.overall
        if overall is not None and not FLOOR <= overall.mean <= 1 - FLOOR:
            end = "fails nearly every item" if overall.mean < FLOOR else "passes nearly every item"
            empty = scored.record.flaws.get(Flaw.EMPTY, 0)
            yield (
                f"The baseline {end} of {scored.name} ({100 * overall.mean:.1f} %, {empty} of {overall.n} answers "
                "empty): on this set a loss of quality can hardly show, and a passed quality gate says little."
            )


def _strays(gathered: Gathered) -> Iterator[str]:
    if gathered.strays:
        first = ", ".join(gathered.strays[:NAMED_STRAYS])
        files = counted(len(gathered.strays), "record file", "record files")
        yield (
            f"Left out, since params.yaml does not name it: {files}, such as {first}. Delete what is of no more use."
        )
