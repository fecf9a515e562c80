"""The part of the catalogue that compares next-token distributions with the baseline's on the fidelity text."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from pipeline.metrics import derive, display, samples
from pipeline.metrics.metric import Metric, with_interval


def _estimate(
    name: str, title: str, unit: str, higher_is_better: bool, show: Callable[[float], str], formula: str
) -> tuple[Metric, Metric, Metric]:
    """A figure that stands under this name in `pipeline.metrics.fidelity.Fidelity`, with its interval."""
    value, low, high = (derive.fidelity(attrgetter(f"{name}.{part}")) for part in ("value", "low", "high"))
    metric = Metric(
        name,
        title,
        unit,
        higher_is_better,
        show,
        value,
        formula,
        low=f"{name}_ci_low",
        high=f"{name}_ci_high",
        versus_baseline=True,
        sample=samples.tokens,
    )
    return with_interval(metric, low, high)


FIDELITY: tuple[Metric, ...] = (
    *_estimate(
        "ppl_ratio",
        "Perplexity vs baseline",
        "ratio",
        False,
        display.fine_ratio,
        "exp(mean over the text's tokens of (baseline's log p - variant's log p)); 1 is no change",
    ),
    *_estimate(
        "kld_mean",
        "KL divergence, mean",
        "nats",
        False,
        display.nats,
        "mean over the text's tokens of KL(baseline's next-token distribution ‖ the variant's)",
    ),
    *_estimate(
        "top1_agreement",
        "Top-1 agreement",
        "share",
        True,
        display.share,
        "share of the text's tokens at which both hold the same next token likeliest",
    ),
    Metric(
        "perplexity",
        "Perplexity",
        "perplexity",
        False,
        display.perplexity,
        derive.fidelity(attrgetter("perplexity")),
        "exp(-mean log p) of the text's tokens; comparable between models of one tokenizer only",
        paired="ppl_ratio",
    ),
    Metric(
        "kld_p99",
        "KL divergence P99",
        "nats",
        False,
        display.nats,
        derive.fidelity(attrgetter("kld_p99")),
        "99th percentile of the KL divergence over the text's tokens; needs 100 tokens",
        versus_baseline=True,
    ),
    Metric(
        "kld_max",
        "KL divergence, largest",
        "nats",
        False,
        display.nats,
        derive.fidelity(attrgetter("kld_max")),
        "largest KL divergence at any of the text's tokens",
        versus_baseline=True,
    ),
)
