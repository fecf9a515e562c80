"""Aggregating item scores through Hugging Face `evaluate`, offline and safe beside other runs."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from pipeline.metrics import intervals
from pipeline.quality_records import ItemResult
from pipeline.records import Interval

METRIC_FILE = Path(__file__).with_name("aggregate.py")


def aggregate_scores(results: Sequence[ItemResult], seed: int) -> Interval:
    """Mean score of the items with n and its 95 % interval; see `intervals.mean_interval`.

    Sets HF_HUB_OFFLINE and HF_EVALUATE_OFFLINE: the metric is a file of this package, the hub is not asked.

    Raises:
        ValueError: no results.
    """
    if not results:
        raise ValueError("no scores: a mean of nothing is not defined")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_EVALUATE_OFFLINE"] = "1"
    import evaluate

    observed = intervals.scores(results)
    with tempfile.TemporaryDirectory(prefix="quantgate-evaluate-") as cache:
        metric = evaluate.load(str(METRIC_FILE), experiment_id=uuid.uuid4().hex, cache_dir=cache, keep_in_memory=True)
        found = metric.compute(
            predictions=[each.value for each in observed],
            weights=[each.weight for each in observed],
            units=[each.unit for each in observed],
            seed=seed,
        )
    return Interval.model_validate(found["interval"])
