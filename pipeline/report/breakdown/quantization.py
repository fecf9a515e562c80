"""What making each artifact took, and what it became: bits per weight, layers, calibration, time, memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.artifact_records import QuantizeRecord
from pipeline.metrics import display
from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.evidence import VariantEvidence
from pipeline.records import Reading, Status, known
from pipeline.report import cells
from pipeline.report.breakdown.words import counted
from pipeline.report.cells import Cell

BITS = BY_NAME["bits_per_weight"]
SHOWN = 3
"""Of many failed tries, those that are told in full."""


@dataclass(frozen=True)
class Line:
    label: str
    cells: tuple[Cell, ...]
    """In the order of the variants."""


def lines(variants: Sequence[VariantEvidence]) -> list[Line]:
    """One for each figure."""
    figures: dict[str, Callable[[QuantizeRecord], Cell]] = {
        "Bits per weight, as stored": _bits,
        "Linear layers quantized": _quantized,
        "Calibration set": _calibration_set,
        "Calibration tokens": _calibration_tokens,
        "Calibration hash": _calibration_hash,
        "Time": lambda record: Cell(display.seconds(record.wall_s)),
        "Peak memory of the process": lambda record: _bytes(record.peak_process_bytes),
        "Peak memory of the GPU": lambda record: _bytes(record.peak_gpu_bytes),
        "Toolchain": lambda record: Cell(record.toolchain or "main"),
    }
    return [
        Line(label, tuple(_cell(evidence.quantize, cell) for evidence in variants)) for label, cell in figures.items()
    ]


def notes(variants: Sequence[VariantEvidence]) -> Iterator[tuple[str, str]]:
    """Variant and words: what was left unquantized, what took more than one try, what is quantized only at loading."""
    for evidence in variants:
        record = evidence.quantize
        if record.quantized_modules and record.unquantized_modules:
            yield evidence.variant, f"left unquantized: {_grouped(record.unquantized_modules)}"
        if record.attempts:
            yield evidence.variant, _attempts(record)
        if record.at_load:
            yield evidence.variant, f"stored unquantized and quantized each time it is loaded: {record.at_load}"


def _cell(record: QuantizeRecord, of: Callable[[QuantizeRecord], Cell]) -> Cell:
    return of(record) if record.status is Status.OK else cells.absent(record.reason or "")


def _bits(record: QuantizeRecord) -> Cell:
    if record.bits_per_weight is None:
        return cells.absent("the quantize record has no bits_per_weight")
    return cells.reading(BITS, known(record.bits_per_weight))


def _quantized(record: QuantizeRecord) -> Cell:
    done, left = len(record.quantized_modules), len(record.unquantized_modules)
    return Cell(f"{done} of {done + left}", reason=f"not: {_grouped(record.unquantized_modules)}" if left else "")


def _calibration_set(record: QuantizeRecord) -> Cell:
    use = record.calibration
    if use is None:
        return _uncalibrated()
    return Cell(f"{use.set_name} {use.set_version}", reason=f"{use.samples_kept} of {use.samples_total} samples")


def _calibration_tokens(record: QuantizeRecord) -> Cell:
    return Cell(f"{record.calibration.tokens:,}") if record.calibration else _uncalibrated()


def _calibration_hash(record: QuantizeRecord) -> Cell:
    return Cell(record.calibration.sha256[:12]) if record.calibration else _uncalibrated()


def _uncalibrated() -> Cell:
    return cells.absent("needs no calibration text")


def _bytes(found: Reading) -> Cell:
    return cells.reading(BY_NAME["weight_bytes"], found)


def _grouped(names: Sequence[str]) -> str:
    """Layers of many blocks by the last part of their names, e.g. `down_proj × 30, lm_head`."""
    counts = Counter(name.rsplit(".", 1)[-1] for name in names)
    return ", ".join(leaf if count == 1 else f"{leaf} × {count}" for leaf, count in sorted(counts.items()))


def _attempts(record: QuantizeRecord) -> str:
    failed = [attempt for attempt in record.attempts if attempt.failure is not None]
    told = [f"{_settings(attempt.settings)}: {attempt.failure}" for attempt in failed[:SHOWN]]
    more = [f"and {len(failed) - SHOWN} more"] if len(failed) > SHOWN else []
    return f"{counted(len(failed), 'try', 'tries')} failed ({'; '.join([*told, *more])})"


def _settings(settings: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
