"""The part of the catalogue that tells what is wrong with a variant's answers, beside its mean score, or missing."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from pipeline.metrics import derive, display, exposure, samples
from pipeline.metrics.metric import Metric, Narrows, with_interval
from pipeline.quality_records import Flaw, QualityRecord
from pipeline.records import Reading


def _items(name: str, title: str, count: Callable[[list[QualityRecord]], Reading], formula: str) -> Metric:
    """A number of answers, over all eval sets."""
    return Metric(
        name,
        title,
        "items",
        False,
        display.count,
        derive.over_sets(count),
        formula,
        narrows=Narrows.CATEGORY,
        exposed=exposure.answers,
    )


QUALITY: tuple[Metric, ...] = (
    Metric(
        "length_finish_share",
        "Answers cut off",
        "share",
        False,
        display.share,
        derive.over_sets(derive.length_share),
        "share of generated answers cut at their token limit",
        narrows=Narrows.CATEGORY,
    ),
    _items("empty_outputs", "Empty answers", derive.flawed(Flaw.EMPTY), "answers with no text"),
    _items("refusals", "Refusals", derive.flawed(Flaw.REFUSAL), "answers that decline to answer"),
    _items(
        "degenerate_outputs",
        "Degenerate answers",
        derive.flawed(Flaw.DEGENERATE),
        "answers that repeat themselves without end, or are mostly not text",
    ),
    Metric(
        "over_context_items",
        "Items over the context",
        "items",
        False,
        display.count,
        derive.over_sets(derive.over_context),
        "items not asked, since prompt and answer do not fit into the model's context",
        narrows=Narrows.EVAL_SET,
    ),
    Metric(
        "critical_regressions",
        "Critical items lost",
        "items",
        False,
        display.count,
        derive.critical_lost,
        "critical items the baseline passed and the variant did not",
        versus_baseline=True,
        narrows=Narrows.CATEGORY,
        exposed=exposure.critical_passed_before,
    ),
    *with_interval(
        Metric(
            "worst_category_delta",
            "Worst category vs baseline",
            "share",
            True,
            display.points,
            derive.worst_category(derive.mean),
            "lowest mean of (variant score - baseline score) of any category of any eval set",
            low="worst_category_delta_ci_low",
            high="worst_category_delta_ci_high",
            versus_baseline=True,
            sample=samples.worst_category,
            narrows=Narrows.EVAL_SET,
        ),
        derive.worst_category(attrgetter("ci_low")),
        derive.worst_category(attrgetter("ci_high")),
    ),
    *with_interval(
        Metric(
            "failure_rate",
            "Requests that failed",
            "share",
            False,
            display.share,
            derive.failure_rate(attrgetter("share")),
            "share of all workloads' turns and all eval items that failed, were skipped, or did not fit the context",
            low="failure_rate_ci_low",
            high="failure_rate_ci_high",
            sample=samples.trials,
        ),
        derive.failure_rate(attrgetter("low")),
        derive.failure_rate(attrgetter("high")),
    ),
)
