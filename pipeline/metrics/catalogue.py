"""Every metric, declared once: name, unit, direction, display, formula. Tables, frontier, gates and docs read this.

Imported by params.py and the command line, so nothing heavy is imported here; see `pipeline.metrics.intervals`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from pipeline.metrics import derive, display


@dataclass(frozen=True)
class Metric:
    name: str
    """The column in pareto.csv; ends in the stored unit where it has one."""
    title: str
    unit: str
    """Unit of the stored value."""
    higher_is_better: bool | None
    """None where neither direction is better in itself."""
    display: Callable[[float], str]
    compute: derive.Compute
    formula: str
    low: str | None = None
    """Name of the metric that is the lower bound of this one's 95 % interval."""
    high: str | None = None
    versus_baseline: bool = False
    """Compares to the baseline in itself, so that the baseline's own value is fixed."""


MAIN: tuple[Metric, ...] = (
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
    ),
    Metric(
        "quality_ci_low",
        "Quality, low",
        "share",
        True,
        display.share,
        derive.quality(attrgetter("ci_low")),
        "lower end of the 95 % interval of `quality`",
    ),
    Metric(
        "quality_ci_high",
        "Quality, high",
        "share",
        True,
        display.share,
        derive.quality(attrgetter("ci_high")),
        "upper end of the 95 % interval of `quality`",
    ),
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
    ),
    Metric(
        "delta_ci_low",
        "Quality vs baseline, low",
        "share",
        True,
        display.points,
        derive.delta(attrgetter("ci_low")),
        "lower end of the 95 % paired interval of `quality_delta`",
        versus_baseline=True,
    ),
    Metric(
        "delta_ci_high",
        "Quality vs baseline, high",
        "share",
        True,
        display.points,
        derive.delta(attrgetter("ci_high")),
        "upper end of the 95 % paired interval of `quality_delta`",
        versus_baseline=True,
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
    ),
    Metric(
        "decode_tokens_per_s",
        "Decode tokens/s",
        "tokens/s",
        True,
        display.rate,
        derive.speed("decode_tokens_per_s"),
        "median over the repeats of 1 / TPOT, one stream",
    ),
    Metric(
        "speedup",
        "Decode speed vs baseline",
        "ratio",
        True,
        display.ratio,
        derive.speedup,
        "median decode tokens/s / the baseline's; not measured in alternation",
        versus_baseline=True,
    ),
    Metric(
        "ttft_s_p50",
        "TTFT P50",
        "s",
        False,
        display.milliseconds,
        derive.speed("ttft_s_p50"),
        "median of request start → first generated token",
    ),
    Metric(
        "ttft_s_p95",
        "TTFT P95",
        "s",
        False,
        display.milliseconds,
        derive.speed("ttft_s_p95"),
        "95th percentile of TTFT; needs 20 repeats",
    ),
    Metric(
        "tpot_s_p50",
        "TPOT P50",
        "s",
        False,
        display.milliseconds,
        derive.speed("tpot_s_p50"),
        "median of (latency - TTFT) / (output tokens - 1)",
    ),
    Metric(
        "tpot_s_p95",
        "TPOT P95",
        "s",
        False,
        display.milliseconds,
        derive.speed("tpot_s_p95"),
        "95th percentile of TPOT over the repeats; needs 20 repeats",
    ),
    Metric(
        "weight_bytes",
        "Weights on disk",
        "bytes",
        False,
        display.memory,
        derive.quantized("weight_bytes"),
        "bytes of the artifact's weight files",
    ),
    Metric(
        "peak_memory_bytes",
        "Peak memory",
        "bytes",
        False,
        display.memory,
        derive.peak_memory,
        "CUDA: most memory the allocator reserved; CPU: largest resident set of the worker while running",
    ),
)

EXTRA: tuple[Metric, ...] = (
    Metric(
        "prefill_tokens_per_s",
        "Prefill tokens/s",
        "tokens/s",
        True,
        display.rate,
        derive.speed("prefill_tokens_per_s"),
        "median of prompt tokens / time of one forward pass over the prompt",
    ),
    Metric(
        "end_to_end_tokens_per_s",
        "End-to-end tokens/s",
        "tokens/s",
        True,
        display.rate,
        derive.speed("end_to_end_tokens_per_s"),
        "median of output tokens / latency, one stream",
    ),
    Metric(
        "bits_per_weight",
        "Bits per weight",
        "bits",
        None,
        display.bits,
        derive.quantized("bits_per_weight"),
        "8 × `weight_bytes` / weights of the base model",
    ),
    Metric(
        "load_s",
        "Load time",
        "s",
        False,
        display.seconds,
        derive.load_s,
        "time to load the artifact into the engine",
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
    Metric(
        "length_finish_share",
        "Answers cut off",
        "share",
        False,
        display.share,
        derive.over_sets(derive.length_share),
        "share of answers cut at their token limit",
    ),
    Metric(
        "empty_outputs",
        "Empty answers",
        "items",
        False,
        display.count,
        derive.over_sets(derive.empty_outputs),
        "answers with no text",
    ),
)

METRICS: tuple[Metric, ...] = MAIN + EXTRA
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
