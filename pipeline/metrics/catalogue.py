"""Every metric, declared once: name, unit, direction, display, formula. Tables, frontier, gates and docs read this.

Imported by params.py and the command line, so nothing heavy is imported here; see `pipeline.metrics.intervals`.
"""

from __future__ import annotations

from operator import attrgetter

from pipeline.metrics import derive, display, exposure, pairing, request_times, samples
from pipeline.metrics.evidence import Compare
from pipeline.metrics.fidelity_catalogue import FIDELITY
from pipeline.metrics.metric import Metric, Narrows, with_interval
from pipeline.metrics.quality_catalogue import QUALITY
from pipeline.metrics.times_catalogue import of_requests, percentile

__all__ = ["BY_NAME", "EXTRA", "MAIN", "METRICS", "Metric"]


def _ratio(
    name: str, title: str, higher_is_better: bool, compare: Compare, formula: str
) -> tuple[Metric, Metric, Metric]:
    """A ratio to the baseline, with its interval."""
    metric = Metric(
        name,
        title,
        "ratio",
        higher_is_better,
        display.ratio,
        derive.ratio(compare, derive.middle),
        formula,
        low=f"{name}_ci_low",
        high=f"{name}_ci_high",
        versus_baseline=True,
        sample=samples.process_pairs(compare),
        narrows=Narrows.WORKLOAD,
    )
    low, high = (derive.ratio(compare, attrgetter(end)) for end in ("low", "high"))
    return with_interval(metric, low, high)


_TTFT_P95, *_TTFT_P95_ENDS = of_requests(
    "ttft", 95, request_times.ttfts, "95th percentile of TTFT; needs 20 requests, and 72 for the upper end"
)
_TPOT_P95, *_TPOT_P95_ENDS = of_requests(
    "tpot", 95, request_times.tpots, "95th percentile of TPOT over the requests; needs 20, and 72 for the upper end"
)

MAIN: tuple[Metric, ...] = (
    *with_interval(
        Metric(
            "quality",
            "Quality",
            "share",
            True,
            display.share,
            derive.quality(derive.mean),
            "mean item score 0..1 of each eval set, weighted over the sets",
            low="quality_ci_low",
            high="quality_ci_high",
            sample=samples.items,
            narrows=Narrows.CATEGORY,
        ),
        derive.quality(attrgetter("ci_low")),
        derive.quality(attrgetter("ci_high")),
    ),
    *with_interval(
        Metric(
            "quality_delta",
            "Quality vs baseline",
            "share",
            True,
            display.points,
            derive.delta(derive.mean),
            "mean of (variant score - baseline score) on the same items, weighted over the sets",
            low="delta_ci_low",
            high="delta_ci_high",
            versus_baseline=True,
            sample=samples.paired_items,
            narrows=Narrows.CATEGORY,
        ),
        derive.delta(attrgetter("ci_low")),
        derive.delta(attrgetter("ci_high")),
    ),
    Metric(
        "flips_lost",
        "Items lost",
        "items",
        False,
        display.count,
        derive.flips(attrgetter("lost")),
        "items the baseline passed and the variant did not",
        versus_baseline=True,
        narrows=Narrows.CATEGORY,
        exposed=exposure.passed_before,
    ),
    Metric(
        "flips_won",
        "Items won",
        "items",
        True,
        display.count,
        derive.flips(attrgetter("won")),
        "items the variant passed and the baseline did not",
        versus_baseline=True,
        narrows=Narrows.CATEGORY,
    ),
    Metric(
        "decode_tokens_per_s",
        "Decode tokens/s",
        "tokens/s",
        True,
        display.rate,
        derive.speed("decode_tokens_per_s"),
        "median over the requests of 1 / TPOT, one stream",
        paired="speedup",
        narrows=Narrows.WORKLOAD,
    ),
    *_ratio(
        "speedup",
        "Decode speed vs baseline",
        True,
        pairing.decode_speedup,
        "median over the pairs of the baseline's TPOT / the variant's; 1 for the baseline itself",
    ),
    percentile("ttft", 50, "median of request start → first generated token", paired="ttft_speedup"),
    _TTFT_P95,
    percentile("tpot", 50, "median of (latency - TTFT) / (output tokens - 1)", paired="speedup"),
    _TPOT_P95,
    Metric(
        "weight_bytes",
        "Weights on disk",
        "bytes",
        False,
        display.memory,
        derive.quantized("weight_bytes"),
        "bytes of the artifact's weight files",
        exact=True,
    ),
    Metric(
        "peak_memory_bytes",
        "Peak memory",
        "bytes",
        False,
        display.memory,
        derive.peak_memory,
        "largest peak over the workloads; CUDA: reserved by torch's allocator, or NVML's figure for the process where "
        "the engine does without it; CPU: resident set of the worker",
    ),
    Metric(
        "cost_per_million_tokens",
        "Cost per million tokens",
        "currency",
        False,
        display.money,
        derive.headline(derive.cost_per_million_tokens),
        "price per hour / 3600 / `aggregate_tokens_per_s` × 10⁶",
        paired="aggregate_speedup",
        narrows=Narrows.WORKLOAD,
    ),
)

EXTRA: tuple[Metric, ...] = (
    *_ratio(
        "ttft_speedup",
        "TTFT vs baseline",
        True,
        pairing.first_token_speedup,
        "median over the pairs of the baseline's TTFT / the variant's; above 1 the variant answers sooner",
    ),
    *_ratio(
        "aggregate_speedup",
        "Aggregate speed vs baseline",
        True,
        pairing.aggregate_speedup,
        "median over the pairs of the baseline's latency / the variant's, which is that of their aggregate tokens/s",
    ),
    *_ratio(
        "decode_cost_ratio",
        "Work per token vs baseline",
        False,
        pairing.decode_cost_ratio,
        "median over the pairs of the variant's CPU seconds per decoded token / the baseline's; CUDA: device time",
    ),
    Metric(
        "decode_cost_s_per_token",
        "Work per token",
        "s",
        False,
        display.milliseconds,
        derive.headline(derive.decode_cost),
        "median of CPU seconds, all threads, per decoded token of any stream; CUDA: device time between events",
        paired="decode_cost_ratio",
        narrows=Narrows.WORKLOAD,
    ),
    Metric(
        "aggregate_tokens_per_s",
        "Aggregate tokens/s",
        "tokens/s",
        True,
        display.rate,
        derive.speed("aggregate_tokens_per_s"),
        "median of concurrency × output tokens / latency, all streams",
        paired="aggregate_speedup",
        narrows=Narrows.WORKLOAD,
    ),
    Metric(
        "prefill_tokens_per_s",
        "Prefill tokens/s",
        "tokens/s",
        True,
        display.rate,
        derive.speed("prefill_tokens_per_s"),
        "median of all streams' prompt tokens / time of one forward pass over the prompts",
        narrows=Narrows.WORKLOAD,
    ),
    Metric(
        "end_to_end_tokens_per_s",
        "End-to-end tokens/s",
        "tokens/s",
        True,
        display.rate,
        derive.speed("end_to_end_tokens_per_s"),
        "median of output tokens / latency, one stream",
        narrows=Narrows.WORKLOAD,
    ),
    *_TTFT_P95_ENDS,
    *_TPOT_P95_ENDS,
    *of_requests(
        "ttft", 99, request_times.ttfts, "99th percentile of TTFT; needs 100 requests, and 368 for the upper end"
    ),
    *of_requests(
        "tpot",
        99,
        request_times.tpots,
        "99th percentile of TPOT over the requests; needs 100, and 368 for the upper end",
    ),
    percentile("itl", 50, "median of the gaps between two tokens, over all requests"),
    percentile("itl", 95, "95th percentile of the gaps between two tokens; needs 20 gaps"),
    percentile("itl", 99, "99th percentile of the gaps between two tokens; needs 100 gaps"),
    Metric(
        "goodput_requests_per_s",
        "Goodput, requests/s",
        "requests/s",
        True,
        display.per_second,
        derive.headline(derive.goodput),
        "concurrency × turns with TTFT and TPOT within the objective / sum of the latencies of all turns",
        narrows=Narrows.WORKLOAD,
    ),
    Metric(
        "knee_concurrency",
        "Knee, streams",
        "streams",
        None,
        display.count,
        derive.swept(derive.knee_concurrency),
        "level of the sweep with the greatest aggregate tokens/s / latency",
    ),
    Metric(
        "best_aggregate_tokens_per_s",
        "Best aggregate tokens/s",
        "tokens/s",
        True,
        display.rate,
        derive.swept(derive.best_aggregate),
        "most aggregate tokens/s of any level of the sweep",
    ),
    Metric(
        "mbu",
        "MBU",
        "share",
        None,
        display.share,
        derive.headline(derive.mbu),
        "(weight bytes + KV bytes read in a step) × decode tokens/s / measured memory bandwidth",
        narrows=Narrows.WORKLOAD,
    ),
    Metric(
        "kv_bytes_per_token",
        "KV cache per token",
        "bytes",
        False,
        display.small_memory,
        derive.kv_bytes_per_token,
        "2 × layers × KV heads × head dimension × bytes per element; measured where that differs by over 1 %",
        exact=True,
    ),
    Metric(
        "cost_per_passing_answer",
        "Cost per passing answer",
        "currency",
        False,
        display.money,
        derive.headline(derive.cost_per_passing_answer),
        "price per hour / 3600 × latency / concurrency / share of the eval items that pass",
        narrows=Narrows.WORKLOAD,
    ),
    Metric(
        "bits_per_weight",
        "Bits per weight",
        "bits",
        None,
        display.bits,
        derive.quantized("bits_per_weight"),
        "8 × `weight_bytes` / weights of the base model",
        exact=True,
    ),
    Metric(
        "load_s",
        "Load time",
        "s",
        False,
        display.seconds,
        derive.load_s,
        "median time to load the artifact into the engine, over the processes",
    ),
    Metric(
        "quantize_s",
        "Quantize time",
        "s",
        False,
        display.seconds,
        derive.quantized("wall_s"),
        "wall time of making the artifact",
    ),
    *QUALITY,
    *FIDELITY,
)

METRICS: tuple[Metric, ...] = MAIN + EXTRA
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
