"""How much of a reference text stands in the output, by words or by characters: metrics of Hugging Face `evaluate`.

The two metrics are files of this package, loaded by their path; the hub is not asked.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.scorers.targets import is_text, shape_problems
from pipeline.scorers.words import tokens


def rouge_l(output: str, target: dict[str, Any]) -> float:
    """F1 of the longest common subsequence of words: rises with the words of the reference in their order."""
    return _score("rouge_l_metric", output, target["reference"])


def chrf(output: str, target: dict[str, Any]) -> float:
    """Character n-gram F2: forgives endings and spelling, and weighs what is missing above what is too much."""
    return _score("chrf_metric", output, target["reference"])


def target_problems(target: Any) -> list[str]:
    if found := shape_problems(target, '{"reference": "…"}', {"reference"}):
        return found
    if not is_text(target["reference"]) or not tokens(target["reference"]):
        return [f"target.reference must be a text with at least one word, got {target['reference']!r}"]
    return []


def _score(metric: str, output: str, reference: str) -> float:
    [score] = _metric(metric).compute(predictions=[output], references=[reference])["scores"]
    return float(score)


@cache
def _metric(name: str) -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_EVALUATE_OFFLINE"] = "1"
    import evaluate

    # Nothing is written there once the metric is loaded: its inputs are kept in memory.
    with tempfile.TemporaryDirectory(prefix="quantgate-evaluate-") as folder:
        file = str(Path(__file__).with_name(f"{name}.py"))
        return evaluate.load(file, experiment_id=uuid.uuid4().hex, cache_dir=folder, keep_in_memory=True)
