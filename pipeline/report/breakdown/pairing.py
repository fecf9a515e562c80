"""The speed-up of each variant on the headline workload: how large, from how many pairs, and why not from more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.metrics import pairing
from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.pairing import Speedup
from pipeline.params import Params
from pipeline.readings import Alternation, SpeedRecord, Stop
from pipeline.report import cells
from pipeline.report.breakdown.words import counted
from pipeline.report.cells import Cell

SPEEDUP, WORK = BY_NAME["speedup"], BY_NAME["decode_cost_ratio"]
_ALTERNATED = {
    Alternation.RESIDENT: "both models stayed loaded and took turns request by request",
    Alternation.BLOCKS: "one model was loaded at a time, in blocks",
    Alternation.ALONE: "measured alone",
}
_STOPPED = {
    Stop.PRECISE: "stopped because the interval reaches at most {half_width:g} % to either side",
    Stop.BUDGET: "stopped because the budget of {budget_s} s was spent",
    Stop.TIME_LIMIT: "stopped because the time limit of the stage, {timeout_s} s, was near",
    Stop.NO_PAIRS: "stopped because there was nothing to pair",
    None: "ended because pairs of processes were lost",
}


@dataclass(frozen=True)
class Line:
    variant: str
    is_baseline: bool
    cell: Cell
    """The ratio with its interval."""
    work: Cell
    """The second reading: CPU or device time of a token."""
    speedup: Speedup | None
    words: str


def lines(variants: Sequence[VariantEvidence], params: Params) -> list[Line]:
    return [_line(evidence, params) for evidence in variants]


def _line(evidence: VariantEvidence, params: Params) -> Line:
    found = evidence.ratio(evidence.headline, pairing.decode_speedup)
    return Line(
        variant=evidence.variant,
        is_baseline=evidence.is_baseline,
        cell=cells.of_ratio(SPEEDUP, found),
        work=cells.of_ratio(WORK, evidence.ratio(evidence.headline, pairing.decode_cost_ratio)),
        speedup=None if isinstance(found, str) else found,
        words=found if isinstance(found, str) else "; ".join(_sentence(evidence, found, params)),
    )


def _sentence(evidence: VariantEvidence, found: Speedup, params: Params) -> Iterator[str]:
    ratio, pairs = cells.of_ratio(SPEEDUP, found), sample(found)
    floor = f"the baseline against itself: {ratio}: what this machine adds to a ratio of 1; {pairs}"
    yield floor if evidence.is_baseline else f"{ratio}, {pairs}"
    asked = params.benchmark.pairing
    yield _STOPPED[evidence.speed.stop].format(
        half_width=100 * asked.half_width, budget_s=asked.budget_s, timeout_s=params.benchmark.timeout_s
    )
    if evidence.speed.alternation is not Alternation.RESIDENT:
        yield alternated(evidence.speed)


def sample(found: Speedup) -> str:
    """What a ratio is over."""
    pairs = counted(found.pairs, "pair", "pairs")
    return f"{pairs} in {counted(found.processes, 'pair of processes', 'pairs of processes')}"


def alternated(speed: SpeedRecord) -> str:
    """How the two sides took turns, and why not request by request."""
    assert speed.alternation is not None, "set by every measurement"
    because = f": {speed.alternation_reason}" if speed.alternation_reason else ""
    return f"{_ALTERNATED[speed.alternation]}{because}"


def biased(evidence: VariantEvidence) -> Cell | None:
    """The baseline's ratio to itself where its interval does not hold 1, so that the machine favours one side."""
    found = evidence.ratio(evidence.headline, pairing.decode_speedup)
    if not evidence.is_baseline or isinstance(found, str) or found.low.value is None or found.high.value is None:
        return None
    return None if found.low.value <= 1 <= found.high.value else cells.of_ratio(SPEEDUP, found)


def imprecise(evidence: VariantEvidence, params: Params) -> float | None:
    """Half-width of a speed-up that is wider than asked, as a share of it; None where it is precise or missing."""
    found = evidence.ratio(evidence.headline, pairing.decode_speedup)
    width = None if isinstance(found, str) else found.half_width().value
    return width if width is not None and width > params.benchmark.pairing.half_width else None
