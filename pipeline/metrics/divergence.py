"""How far a variant's next-token distributions are from the baseline's, position by position, from both logits.

Only the worker of the fidelity stage imports this; what follows from its blocks is in `pipeline.metrics.fidelity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray
from scipy.special import log_softmax

from pipeline.quality_records import Block

BLOCK = 256
"""Positions of a block, about. Tokens of one sentence, and of one kind of text, are easy or hard together: over blocks
of 64 the error of a mean divergence came out a third smaller on the shipped text (docs/metrics.md)."""
CHUNK_BYTES = 2**25
"""Of one float64 array of logits; a few such arrays are held at once."""

Logits = NDArray[numpy.float32]
"""[positions, vocabulary]"""
Values = NDArray[numpy.float64]
"""[positions]"""


@dataclass(frozen=True)
class Positions:
    """Scored positions of one window; natural logarithms, so everything is in nats."""

    nll: Values
    """-log p of the token that follows, by the variant."""
    baseline_nll: Values
    kld: Values
    """KL(baseline ‖ variant)."""
    agreed: NDArray[numpy.bool_]
    """Both hold the same token likeliest; of equally likely ones the first counts."""


def compare(baseline: Logits, variant: Logits, next_ids: Sequence[int], chunk_bytes: int = CHUNK_BYTES) -> Positions:
    """Compare the distributions that two models give for the same next tokens.

    With p = softmax(baseline) and q = softmax(variant), KL(p ‖ q) = Σ p·(log p - log q) (Kullback & Leibler 1951,
    Annals of Mathematical Statistics 22:79), in float64 by log-softmax. Where one model has more rows of output, which
    only pad its matrix, both distributions are taken over the tokens that both have.

    Raises:
        ValueError: there are not as many positions on both sides as tokens that follow, one of these is not in both
            vocabularies, or a logit is not finite.
    """
    if not len(baseline) == len(variant) == len(next_ids) > 0:
        raise ValueError(
            f"{len(baseline)} positions of the baseline and {len(variant)} of the variant for {len(next_ids)} tokens; "
            "all three must be the same, at least 1"
        )
    common = min(baseline.shape[1], variant.shape[1])
    if not 0 <= min(next_ids) <= max(next_ids) < common:
        raise ValueError(f"the text has token {max(next_ids)}, but both models share only {common} tokens")
    parts = [
        _compare(baseline[rows, :common], variant[rows, :common], numpy.asarray(next_ids[rows]))
        for rows in _slices(len(next_ids), max(1, chunk_bytes // (8 * common)))
    ]
    return Positions(
        nll=numpy.concatenate([part.nll for part in parts]),
        baseline_nll=numpy.concatenate([part.baseline_nll for part in parts]),
        kld=numpy.concatenate([part.kld for part in parts]),
        agreed=numpy.concatenate([part.agreed for part in parts]),
    )


def blocks(found: Positions) -> list[Block]:
    """Sums over runs of about `BLOCK` neighbouring positions of one window, as equally long as they can be."""
    count = max(1, round(len(found.kld) / BLOCK))
    return [
        Block(
            tokens=len(places),
            nll=float(found.nll[places].sum()),
            baseline_nll=float(found.baseline_nll[places].sum()),
            kld=float(found.kld[places].sum()),
            agreed=int(found.agreed[places].sum()),
        )
        for places in numpy.array_split(numpy.arange(len(found.kld)), count)
    ]


def p99(values: Values) -> float | None:
    """99th percentile by linear interpolation (Hyndman & Fan 1996, type 7); None below 100 values.

    With fewer it would be little more than the largest one under another name.
    """
    return float(numpy.percentile(values, 99)) if len(values) >= 100 else None


def _compare(baseline: Logits, variant: Logits, next_ids: NDArray[numpy.int64]) -> Positions:
    theirs, ours = _log_probabilities(baseline, "baseline"), _log_probabilities(variant, "variant")
    places = numpy.arange(len(next_ids))
    kld = (numpy.exp(theirs) * (theirs - ours)).sum(axis=1)
    return Positions(
        nll=-ours[places, next_ids],
        baseline_nll=-theirs[places, next_ids],
        # Never below 0 but for rounding.
        kld=numpy.maximum(kld, 0.0),
        agreed=theirs.argmax(axis=1) == ours.argmax(axis=1),
    )


def _log_probabilities(logits: Logits, whose: str) -> Values:
    if not numpy.isfinite(logits).all():
        broken = int((~numpy.isfinite(logits)).any(axis=1).sum())
        raise ValueError(f"logits of the {whose} are not finite numbers at {broken} of {len(logits)} positions")
    found: Values = log_softmax(logits.astype(numpy.float64), axis=1)
    return found


def _slices(length: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, length)) for start in range(0, length, step))
