"""How near each variant's next-token distributions are to the baseline's on the fidelity text, in numbers and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.metrics.catalogue import BY_NAME, Metric
from pipeline.metrics.evidence import VariantEvidence
from pipeline.metrics.fidelity import Estimate
from pipeline.report import cells
from pipeline.report.cells import Cell
from pipeline.report.rows import Row

RATIO, AGREEMENT = BY_NAME["ppl_ratio"], BY_NAME["top1_agreement"]
MEAN, P99, LARGEST = BY_NAME["kld_mean"], BY_NAME["kld_p99"], BY_NAME["kld_max"]
COLUMNS: tuple[Metric, ...] = (RATIO, MEAN, P99, LARGEST, AGREEMENT, BY_NAME["perplexity"])


@dataclass(frozen=True)
class Line:
    variant: str
    is_baseline: bool
    cells: tuple[Cell, ...]
    """One for each of `COLUMNS`."""
    words: str


def lines(rows: Sequence[Row], variants: Sequence[VariantEvidence]) -> list[Line]:
    """One for each variant; `rows` are theirs, in the same order."""
    return [
        Line(row.variant, row.is_baseline, tuple(cells.of_row(row, m) for m in COLUMNS), _words(row, evidence))
        for row, evidence in zip(rows, variants, strict=True)
    ]


def _words(row: Row, evidence: VariantEvidence) -> str:
    found = evidence.nearness
    if isinstance(found, str):
        return f"was not compared: {found}"
    if evidence.baseline is None:
        return _against_itself(row)
    return (
        f"{_likelihood(found.ppl_ratio, evidence.baseline.variant)} (perplexity {cells.of_row(row, RATIO)}); "
        f"{_divergence(row)}; {_agreement(row, found.tokens)}"
    )


def _against_itself(row: Row) -> str:
    if row.value(LARGEST.name) == 0:
        return "loaded twice, gives the same odds at every token: what the others differ by is their own"
    return (
        f"loaded twice, differs from itself: {_divergence(row)}. That is what the engine alone adds; a variant that "
        "differs no more is as near as can be told"
    )


def _likelihood(ratio: Estimate, baseline: str) -> str:
    low, high = ratio.low.value, ratio.high.value
    if low is None or high is None:
        return f"is compared with {baseline} without an interval, since {ratio.low.reason or ratio.high.reason}"
    if low > 1:
        return f"finds the text less likely than {baseline} does"
    return (
        f"finds the text likelier than {baseline} does" if high < 1 else f"finds the text as likely as {baseline} does"
    )


def _divergence(row: Row) -> str:
    tail = [
        f"{metric.display(value)} at the {place}"
        for metric, place in ((P99, "worst token in a hundred"), (LARGEST, "worst of all"))
        if (value := row.value(metric.name)) is not None
    ]
    return ", ".join([f"KL divergence {cells.of_row(row, MEAN)} on average", *tail])


def _agreement(row: Row, tokens: int) -> str:
    share = row.value(AGREEMENT.name)
    assert share is not None, "there is one wherever blocks were compared"
    others = f", another one about once in {round(1 / (1 - share)):,}" if share < 1 else ""
    return f"would write the same next token at {cells.of_row(row, AGREEMENT)} of {tokens:,} places{others}"
