"""How near a variant is to the baseline on a text: perplexity, KL divergence and agreement, from sums over blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.metrics import observations
from pipeline.metrics.intervals import TAIL
from pipeline.metrics.observations import Observation
from pipeline.quality_records import FidelityRecord
from pipeline.records import Reading, known, missing

MIN_BLOCKS = 20
"""With fewer, the bootstrap's interval is too narrow; see docs/metrics.md."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: Reading
    low: Reading
    high: Reading


@dataclass(frozen=True)
class Fidelity:
    tokens: int
    """Scored positions."""
    perplexity: Reading
    """exp(mean nll) of the variant."""
    ppl_ratio: Estimate
    """exp(mean nll - mean nll of the baseline) = the variant's perplexity / the baseline's."""
    kld_mean: Estimate
    """Nats, as all divergences."""
    kld_p99: Reading
    kld_max: Reading
    top1_agreement: Estimate
    """Share of positions."""


def summarize(record: FidelityRecord, seed: int) -> Fidelity:
    """All figures of a text that was scored in blocks.

    Intervals: bootstrap over the blocks (`observations.bootstrap`), since neighbouring positions are correlated and
    blocks hardly are (Carlstein 1986, Annals of Statistics 14:1171). Both models' values of a block are drawn together,
    so what makes the text hard for both cancels.

    Raises:
        ValueError: no blocks.
    """
    blocks = record.blocks
    if not blocks:
        raise ValueError("no blocks: the mean over no positions is not defined")
    tokens = [block.tokens for block in blocks]
    total = sum(tokens)
    return Fidelity(
        tokens=total,
        perplexity=_exponential(math.fsum(block.nll for block in blocks) / total),
        ppl_ratio=_estimate([block.nll - block.baseline_nll for block in blocks], tokens, seed, _exponential),
        kld_mean=_estimate([block.kld for block in blocks], tokens, seed, known),
        kld_p99=_or_missing(record.kld_p99, f"P99 needs 100 tokens of text, there are {total}"),
        kld_max=_or_missing(record.kld_max, "the fidelity record does not tell"),
        top1_agreement=_agreement([block.agreed for block in blocks], tokens, seed),
    )


def _estimate(sums: Sequence[float], tokens: Sequence[int], seed: int, link: Callable[[float], Reading]) -> Estimate:
    """`link` of the mean over all positions, and of the ends of its interval."""
    blocks = [
        Observation(total / count, count, str(place))
        for place, (total, count) in enumerate(zip(sums, tokens, strict=True))
    ]
    mean = observations.mean(blocks)
    if len(blocks) < MIN_BLOCKS:
        few = missing(f"an interval needs {MIN_BLOCKS} blocks of text, there are {len(blocks)}")
        return Estimate(link(mean), few, few)
    low, high = observations.bootstrap(blocks, (), seed, TAIL)
    # Blocks that are all alike may round to another side of their mean.
    return Estimate(link(mean), link(min(low, mean)), link(max(high, mean)))


def _agreement(agreed: Sequence[int], tokens: Sequence[int], seed: int) -> Estimate:
    """Never narrower than ± 3/n, cut to 0..1: what was not seen on n positions may happen on up to 3/n of all.

    The rule of three: Hanley & Lippman-Hand 1983, JAMA 249:1743.
    """
    found = _estimate(agreed, tokens, seed, known)
    if found.value.value is None or found.low.value is None or found.high.value is None:
        return found
    floor = 3 / sum(tokens)
    return Estimate(
        found.value,
        known(max(0.0, min(found.low.value, found.value.value - floor))),
        known(min(1.0, max(found.high.value, found.value.value + floor))),
    )


def _or_missing(value: float | None, reason: str) -> Reading:
    return missing(reason) if value is None else known(value)


def _exponential(nats: float) -> Reading:
    """e to that power; missing where that is beyond a float, as of a model that was destroyed."""
    try:
        return known(math.exp(nats))
    except OverflowError:
        return missing(f"exp({nats:.0f}) is too large a number: the text has next to no chance")
