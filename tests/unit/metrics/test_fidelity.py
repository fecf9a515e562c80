from __future__ import annotations

import math

import numpy
import pytest

from pipeline.metrics import fidelity, observations
from pipeline.metrics.fidelity import MIN_BLOCKS, Fidelity
from pipeline.quality_records import Block, FidelityRecord
from pipeline.records import Status, known


def block(
    tokens: int = 64, nll: float = 0, baseline_nll: float = 0, kld: float = 0, agreed: int | None = None
) -> Block:
    return Block(
        tokens=tokens,
        nll=nll,
        baseline_nll=baseline_nll,
        kld=kld,
        agreed=tokens if agreed is None else agreed,
    )


def summarize(blocks: list[Block], seed: int = 0, **changes: float) -> Fidelity:
    return fidelity.summarize(FidelityRecord(variant="int8", status=Status.OK, blocks=blocks, **changes), seed)


def test_figures_by_hand() -> None:
    # 400 tokens: mean nll 3 and 2.5, so e^3, e^2.5 and e^0.5; 80 / 400 nats; 300 of 400 agree.
    blocks = [block(100, 200, 250, 20, 100), block(300, 1000, 750, 60, 200)]
    found = summarize(blocks, kld_p99=0.5, kld_max=1.5)
    assert found.tokens == 400
    assert found.perplexity.value == pytest.approx(math.exp(3))
    assert found.ppl_ratio.value.value == pytest.approx(math.exp(0.5))
    assert found.kld_mean.value.value == pytest.approx(0.2)
    assert found.top1_agreement.value.value == pytest.approx(0.75)
    assert (found.kld_p99.value, found.kld_max.value) == (0.5, 1.5)
    assert summarize(blocks).kld_p99.reason == "P99 needs 100 tokens of text, there are 400"
    assert summarize(blocks).kld_max.reason == "the fidelity record does not tell"


def test_nothing_differs() -> None:
    found = summarize([block(nll=150.0 + number, baseline_nll=150.0 + number) for number in range(MIN_BLOCKS)], 0)
    same = found.ppl_ratio
    assert (same.low.value, same.value.value, same.high.value) == (1, 1, 1)
    assert (found.kld_mean.low.value, found.kld_mean.value.value, found.kld_mean.high.value) == (0, 0, 0)
    agreed = found.top1_agreement
    # Not seen on 1,280 tokens: it may be on up to 3 of 1,280.
    assert (agreed.low.value, agreed.value.value, agreed.high.value) == (1 - 3 / (64 * MIN_BLOCKS), 1, 1)


def test_no_agreement_at_all_is_not_known_to_be_none() -> None:
    agreed = summarize([block(agreed=0)] * MIN_BLOCKS, 0).top1_agreement
    assert (agreed.low.value, agreed.value.value, agreed.high.value) == (0, 0, 3 / (64 * MIN_BLOCKS))


def noisy(count: int = 132, seed: int = 0) -> list[Block]:
    """Texts of very different difficulty on which the variant is a little worse everywhere."""
    rng = numpy.random.default_rng(seed)
    hard = rng.normal(180, 60, count)
    worse = rng.normal(1.28, 0.64, count)
    return [
        block(64, float(base + more), float(base), abs(float(more)), int(rng.binomial(64, 0.95)))
        for base, more in zip(hard, worse, strict=True)
    ]


def test_intervals_are_those_of_the_mean_over_blocks() -> None:
    found = summarize(noisy(), 0)
    # Standard error of a mean of 132 blocks: 0.64 / 64 / √132 of the log ratio
    half = 1.96 * 0.01 / math.sqrt(132)
    for end, sign in ((found.ppl_ratio.low, -1), (found.ppl_ratio.high, 1)):
        assert end.value is not None
        assert found.ppl_ratio.value.value is not None
        assert math.log(end.value / found.ppl_ratio.value.value) == pytest.approx(sign * half, rel=0.2)
    share = 1.96 * math.sqrt(0.95 * 0.05 / (132 * 64))
    agreed = found.top1_agreement
    assert agreed.low.value is not None
    assert agreed.high.value is not None
    assert (agreed.high.value - agreed.low.value) / 2 == pytest.approx(share, rel=0.2)


def test_tokens_and_sums_of_a_block_are_drawn_together() -> None:
    """Blocks of every length with the same mean leave no doubt about it."""
    found = summarize([block(tokens, kld=0.5 * tokens) for tokens in range(1, MIN_BLOCKS + 1)]).kld_mean
    assert found.low.value == pytest.approx(0.5, rel=1e-9)
    assert found.high.value == pytest.approx(0.5, rel=1e-9)


def test_long_blocks_weigh_by_their_tokens() -> None:
    found = summarize([block(1, kld=1.0), *[block(99, kld=0.0)] * MIN_BLOCKS], 0).kld_mean
    assert found.value.value == pytest.approx(1 / (1 + 99 * MIN_BLOCKS))
    # Drawn at most a few times, it is never a large share.
    assert found.high.value is not None
    assert found.high.value < 5 / (99 * MIN_BLOCKS)


def test_the_same_seed_gives_the_same_interval() -> None:
    assert summarize(noisy(), 1) == summarize(noisy(), 1)
    assert summarize(noisy(), 1).ppl_ratio.low != summarize(noisy(), 2).ppl_ratio.low


def test_too_little_text_has_no_interval() -> None:
    found = summarize(noisy(MIN_BLOCKS - 1), 0)
    reason = f"an interval needs {MIN_BLOCKS} blocks of text, there are {MIN_BLOCKS - 1}"
    for estimate in (found.ppl_ratio, found.kld_mean, found.top1_agreement):
        assert estimate.value.value is not None
        assert estimate.low.reason == estimate.high.reason == reason
    assert summarize(noisy(MIN_BLOCKS), 0).ppl_ratio.low.value is not None


def test_a_perplexity_beyond_all_numbers_is_missing() -> None:
    found = summarize([block(nll=64 * 800.0, baseline_nll=64.0, kld=64 * 790.0)] * MIN_BLOCKS, 0)
    reason = "exp(799) is too large a number: the text has next to no chance"
    assert found.perplexity.reason == reason.replace("799", "800")
    assert found.ppl_ratio.value.reason == found.ppl_ratio.low.reason == reason
    assert found.kld_mean.value.value == 790


def test_no_blocks_are_no_mean() -> None:
    with pytest.raises(ValueError, match="no blocks"):
        summarize([], 0)


def coverage(block_tokens: int, trials: int = 300) -> float:
    """How often the interval of the mean divergence held the truth, 1, in percent.

    2,560 positions each, lognormal and correlated over about 10 neighbours: AR(1) at 0.9.
    """
    from scipy.signal import lfilter

    rng = numpy.random.default_rng(7)
    held = 0
    for trial in range(trials):
        noise = lfilter([math.sqrt(1 - 0.9**2)], [1, -0.9], rng.standard_normal(2560 + 100))[100:]
        sums = numpy.exp(0.5 * noise - 0.125).reshape(-1, block_tokens).sum(axis=1)
        found = fidelity._estimate(sums.tolist(), [block_tokens] * len(sums), trial, known)
        assert found.low.value is not None
        assert found.high.value is not None
        held += found.low.value <= 1 <= found.high.value
    return 100 * held / trials


def test_the_interval_over_blocks_holds_the_truth_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over single positions it would not, by far."""
    monkeypatch.setattr(observations, "RESAMPLES", 499)
    assert 91 < coverage(64) < 97
    assert coverage(1, trials=60) < 60
