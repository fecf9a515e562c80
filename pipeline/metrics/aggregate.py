"""Item scores → mean, n and 95 % interval, as a metric of Hugging Face `evaluate`.

`evaluate.load` reads the imports of this file as text: one module per `import` line, nothing relative.
Call it through `pipeline.metrics.aggregation.aggregate_scores`.
"""

import datasets
import evaluate

from pipeline.metrics import intervals

DESCRIPTION = (
    "Mean of item scores (0..1) with n and the 95 % interval: Wilson for pass/fail, bootstrap for graded scores."
)
INPUTS = """
Args:
    predictions: the score of each item, 0..1.
    seed: seed of the bootstrap; 0 by default.
Returns:
    interval: the fields of `pipeline.records.Interval`.
"""


class MeanScore(evaluate.Metric):  # type: ignore[misc]
    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": datasets.Value("float64")}),
        )

    def _compute(self, predictions: list[float], seed: int = 0) -> dict[str, object]:
        return {"interval": intervals.mean_interval(predictions, seed).model_dump()}
