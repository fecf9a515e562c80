from __future__ import annotations

import math

import numpy
import pytest

from pipeline.metrics import divergence
from pipeline.metrics.divergence import Positions, compare


def logits(*rows: list[float]) -> numpy.ndarray:
    return numpy.array(rows, dtype=numpy.float32)


def drawn(positions: int, vocabulary: int, seed: int = 0, spread: float = 3.0) -> numpy.ndarray:
    return (numpy.random.default_rng(seed).standard_normal((positions, vocabulary)) * spread).astype(numpy.float32)


def test_a_position_by_hand() -> None:
    # p = 1/2, 1/4, 1/4 and q = 1/4, 1/2, 1/4: KL(p ‖ q) = 1/2 log 2 - 1/4 log 2; the other way round it is as much,
    # so the second position has p = 1/2, 1/4, 1/4 and q = 2/3, 1/6, 1/6: 1/2 log 3/4 + 1/2 log 3/2 = 1/2 log 9/8.
    p = [math.log(2), 0.0, 0.0]
    found = compare(logits(p, p), logits([0.0, math.log(2), 0.0], [math.log(4), 0.0, 0.0]), [0, 1])
    assert found.kld == pytest.approx([math.log(2) / 4, math.log(9 / 8) / 2], rel=1e-6)
    assert found.nll == pytest.approx([math.log(4), math.log(6)], rel=1e-6)
    assert found.baseline_nll == pytest.approx([math.log(2), math.log(4)], rel=1e-6)
    assert found.agreed.tolist() == [False, True]


def test_the_divergence_is_from_the_baseline_not_the_other_way_round() -> None:
    """KL(1/2, 1/2 ‖ 1/10, 9/10) = log 5/3; the other way round it is 0.368."""
    found = compare(logits([0.0, 0.0]), logits([0.0, math.log(9)]), [0])
    assert found.kld == pytest.approx([math.log(5 / 3)], rel=1e-6)


def test_it_agrees_with_an_independent_float64_computation() -> None:
    import torch

    p, q = drawn(37, 211, seed=1), drawn(37, 211, seed=2, spread=20)
    next_ids = numpy.random.default_rng(3).integers(0, 211, 37).tolist()
    found = compare(p, q, next_ids)
    log_p, log_q = (torch.log_softmax(torch.from_numpy(side).double(), dim=1) for side in (p, q))
    kld = torch.nn.functional.kl_div(log_q, log_p, reduction="none", log_target=True).sum(dim=1)
    numpy.testing.assert_allclose(found.kld, kld.numpy(), rtol=1e-12, atol=1e-12)
    for ours, log_probabilities in ((found.nll, log_q), (found.baseline_nll, log_p)):
        nll = torch.nn.functional.nll_loss(log_probabilities, torch.tensor(next_ids), reduction="none")
        numpy.testing.assert_allclose(ours, nll.numpy(), rtol=1e-12)
    assert found.agreed.tolist() == (log_p.argmax(1) == log_q.argmax(1)).tolist()


def test_a_small_divergence_keeps_its_digits() -> None:
    """KL(p ‖ p + ε) ≈ ε²/2 · Var: float32 arithmetic would lose it in rounding."""
    p = drawn(1, 1000, seed=4).astype(numpy.float64)
    shift = numpy.random.default_rng(5).choice([0.0, 2**-12], 1000)
    p = numpy.round(p * 2**12) / 2**12  # both are then exact in float32
    weights = numpy.exp(p[0]) / numpy.exp(p[0]).sum()
    variance = (weights * shift**2).sum() - (weights * shift).sum() ** 2
    found = compare(p.astype(numpy.float32), (p + shift).astype(numpy.float32), [0])
    assert found.kld == pytest.approx([variance / 2], rel=1e-3)


def test_equal_logits_differ_by_exactly_nothing() -> None:
    p = drawn(20, 500, seed=6, spread=10)
    found = compare(p, p.copy(), list(range(20)))
    assert found.kld.tolist() == [0.0] * 20
    assert found.agreed.all()
    assert (found.nll == found.baseline_nll).all()


def test_a_divergence_is_never_below_nothing() -> None:
    """Of two close distributions the sum is rounded to either side of 0."""
    p = drawn(500, 300, seed=7, spread=0.01)
    assert (compare(p, numpy.nextafter(p, numpy.float32(9)), [0] * 500).kld >= 0).all()


def test_logits_that_no_exponential_can_hold() -> None:
    found = compare(logits([1e4, 0.0]), logits([0.0, 1e4]), [1])
    assert (found.kld[0], found.nll[0], found.baseline_nll[0]) == (1e4, 0, 1e4)


@pytest.mark.parametrize("chunk_bytes", [1, 8 * 50 * 3, 10**9])
def test_chunks_change_nothing(chunk_bytes: int) -> None:
    p, q, next_ids = drawn(10, 50, seed=8), drawn(10, 50, seed=9), list(range(10))
    whole, parts = compare(p, q, next_ids), compare(p, q, next_ids, chunk_bytes)
    for field in ("nll", "baseline_nll", "kld", "agreed"):
        assert getattr(parts, field).tolist() == getattr(whole, field).tolist()


def test_rows_that_only_pad_a_matrix_are_left_out() -> None:
    p, q = drawn(6, 40, seed=10), drawn(6, 40, seed=11)
    padding = numpy.full((6, 3), 99, dtype=numpy.float32)
    for padded in (compare(p, numpy.hstack([q, padding]), [0] * 6), compare(numpy.hstack([p, padding]), q, [0] * 6)):
        expected = compare(p, q, [0] * 6)
        assert padded.kld.tolist() == expected.kld.tolist()
        assert padded.nll.tolist() == expected.nll.tolist()
        assert padded.agreed.tolist() == expected.agreed.tolist()


def test_of_equally_likely_tokens_the_first_counts() -> None:
    found = compare(logits([1.0, 1.0, 0.0], [1.0, 1.0, 0.0]), logits([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]), [0, 0])
    assert found.agreed.tolist() == [True, False]


def test_what_cannot_be_compared_is_refused() -> None:
    p = drawn(3, 10)
    with pytest.raises(ValueError, match="3 positions of the baseline and 2 of the variant for 3 tokens"):
        compare(p, p[:2], [0, 1, 2])
    with pytest.raises(ValueError, match="at least 1"):
        compare(p[:0], p[:0], [])
    with pytest.raises(ValueError, match="token 8, but both models share only 8 tokens"):
        compare(p, p[:, :8], [0, 1, 8])
    with pytest.raises(ValueError, match="both models share only 10 tokens"):
        compare(p, p, [0, 1, -1])


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers_are_refused_with_whose_they_are(broken: float) -> None:
    p, q = drawn(3, 10), drawn(3, 10)
    q[1, 4] = broken
    with pytest.raises(ValueError, match="logits of the variant are not finite numbers at 1 of 3 positions"):
        compare(p, q, [0, 1, 2])
    with pytest.raises(ValueError, match="logits of the baseline are not"):
        compare(q, p, [0, 1, 2])


def positions(count: int) -> Positions:
    values = numpy.arange(count, dtype=float)
    return Positions(nll=values, baseline_nll=2 * values, kld=3 * values, agreed=values % 2 == 0)


def test_blocks_are_sums_over_neighbours() -> None:
    first, second = divergence.blocks(positions(512))
    assert (first.tokens, second.tokens) == (256, 256)
    whole = 255 * 256 / 2
    assert (first.nll, first.baseline_nll, first.kld, first.agreed) == (whole, 2 * whole, 3 * whole, 128)
    assert second.nll == sum(range(256, 512))


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(1, [1]), (255, [255]), (383, [383]), (385, [193, 192]), (511, [256, 255]), (1088, [272] * 4)],
)
def test_a_window_is_cut_evenly(count: int, sizes: list[int]) -> None:
    assert [block.tokens for block in divergence.blocks(positions(count))] == sizes


def test_the_99th_percentile_needs_a_hundred_values() -> None:
    assert divergence.p99(numpy.arange(99.0)) is None
    assert divergence.p99(numpy.arange(101.0)) == 99
    # Rank 0.99 × 99 = 98.01 of 0, 2, 4, …
    assert divergence.p99(2 * numpy.arange(100.0)) == pytest.approx(196.02)
