"""Where no variant passes every gate: which are nearest to it, and what would have to give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.metrics.catalogue import BY_NAME
from pipeline.records import GateVerdict, Verdict
from pipeline.report.rows import Row


def sentences(rows: Sequence[Row], verdicts: Mapping[str, Sequence[GateVerdict]]) -> list[str]:
    """One for each of the variants that work and fail the fewest gates, and of these leave the fewest undecided."""
    working = {
        row.variant: [verdict for verdict in verdicts[row.variant] if verdict.verdict is not Verdict.PASS]
        for row in rows
        if row.ok
    }
    fewest = min(map(_distance, working.values()), default=None)
    return [_sentence(variant, blocks) for variant, blocks in working.items() if _distance(blocks) == fewest]


def _distance(blocks: Sequence[GateVerdict]) -> tuple[int, int]:
    failed = sum(block.verdict is Verdict.FAIL for block in blocks)
    return failed, len(blocks) - failed


def _sentence(variant: str, blocks: Sequence[GateVerdict]) -> str:
    return f"{variant} would pass if {' and '.join(map(_condition, blocks))}"


def _condition(block: GateVerdict) -> str:
    """What would have to be otherwise for one gate to pass: its bound, or how much was measured."""
    if block.passes_at is None or block.bound is None:
        return f"{block.gate} could be judged ({block.reason})"
    show = BY_NAME[block.metric].display
    bound = f"{block.gate} were {show(block.passes_at)} instead of {show(block.bound)}"
    if block.more is None or block.more_of is None:
        return bound
    return f"{bound} (about {block.more:,} more {block.more_of.value} would decide it)"
