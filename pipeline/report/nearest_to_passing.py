"""Where no variant passes every gate: which are nearest to it, and what would have to give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.params import Gate
from pipeline.records import GateVerdict, Verdict
from pipeline.report import gates as judging
from pipeline.report.rows import Row


def sentences(
    rows: Sequence[Row], verdicts: Mapping[str, Sequence[GateVerdict]], gates: Mapping[str, Gate]
) -> list[str]:
    """One for each of the variants that work and fail the fewest gates, and of these leave the fewest undecided."""
    working = {
        row.variant: [verdict for verdict in verdicts[row.variant] if verdict.verdict is not Verdict.PASS]
        for row in rows
        if row.ok
    }
    fewest = min(map(_distance, working.values()), default=None)
    return [_sentence(variant, blocks, gates) for variant, blocks in working.items() if _distance(blocks) == fewest]


def _distance(blocks: Sequence[GateVerdict]) -> tuple[int, int]:
    failed = sum(block.verdict is Verdict.FAIL for block in blocks)
    return failed, len(blocks) - failed


def _sentence(variant: str, blocks: Sequence[GateVerdict], gates: Mapping[str, Gate]) -> str:
    return f"{variant} would pass if {' and '.join(_condition(block, gates[block.gate]) for block in blocks)}"


def _condition(block: GateVerdict, gate: Gate) -> str:
    """What would have to be otherwise for one gate to pass: its bound, or how much was measured.

    More of it would not help where the value itself misses the bound.
    """
    if block.passes_at is None or block.bound is None or block.value is None:
        return f"{block.gate} could be judged ({block.reason})"
    metric, at_least = BY_NAME[block.metric], gate.at_least is not None
    base = block.bound / gate.bound if gate.relative and gate.bound else None
    passes = judging.advised(metric, block.passes_at, base, up=not at_least)
    bound = f"{block.gate} were {passes} instead of {_asked(metric, gate, block.bound, base)}"
    leans_to_pass = block.value >= block.bound if at_least else block.value <= block.bound
    if block.more is None or block.more_of is None or not leans_to_pass:
        return bound
    return f"{bound} (about {block.more:,} more {block.more_of.value} would decide it)"


def _asked(metric: Metric, gate: Gate, bound: float, base: float | None) -> str:
    """The bound as params.yaml gives it. No multiple of a baseline of 0 is another one, so there 0 is named."""
    if base is None:
        return metric.display(bound)
    return f"{gate.bound:g} ×" if base else f"{gate.bound:g} × the baseline's {metric.display(base)}"
