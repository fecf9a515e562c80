"""What tokens and answers cost on a machine that is busy all the time, in the currency of the price."""

from __future__ import annotations

from pipeline.records import Reading, known, missing

_NO_PRICE = missing("no price per hour is given (serving.price_per_hour)")


def per_million_tokens(price_per_hour: float | None, aggregate_tokens_per_s: Reading) -> Reading:
    """Price per hour / 3600 / aggregate tokens per second × 10⁶.

    Output tokens: the time of the prompt is in the latency and is paid for by them.
    """
    if price_per_hour is None:
        return _NO_PRICE
    if not aggregate_tokens_per_s.value:
        return missing(aggregate_tokens_per_s.reason or "no tokens per second")
    return known(price_per_hour / 3600 / aggregate_tokens_per_s.value * 1e6)


def per_passing_answer(
    price_per_hour: float | None, latency_s: Reading, concurrency: int, pass_share: Reading
) -> Reading:
    """Price per hour / 3600 × latency / concurrency / share of the eval items that pass.

    An answer of the workload's length, over the share of answers that are of use: what is paid until one passes.
    """
    if price_per_hour is None:
        return _NO_PRICE
    if latency_s.value is None:
        return latency_s
    if not pass_share.value:
        return missing(pass_share.reason or "no answer passed")
    return known(price_per_hour / 3600 * latency_s.value / concurrency / pass_share.value)
