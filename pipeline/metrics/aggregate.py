"""Item scores → mean, n and 95 % interval, as a metric of Hugging Face `evaluate`.

`evaluate.load` reads the imports of this file as text: one module per `import` line, nothing relative.
Call it through `pipeline.metrics.aggregation.aggregate_scores`.
"""

import datasets
import evaluate

from pipeline.metrics import intervals, observations

DESCRIPTION = (
    "Weighted mean of item scores (0..1) with n and the 95 % interval; see pipeline.metrics.intervals.of_scores."
)
INPUTS = """
Args:
    predictions: the score of each item, 0..1.
    weights: the weight of each item.
    units: what each item was drawn with: the name of its cluster, or one of its own.
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
            features=datasets.Features(
                {
                    "predictions": datasets.Value("float64"),
                    "weights": datasets.Value("float64"),
                    "units": datasets.Value("string"),
                }
            ),
        )

    def _compute(
        self, predictions: list[float], weights: list[float], units: list[str], seed: int = 0
    ) -> dict[str, object]:
        observed = [observations.Observation(*row) for row in zip(predictions, weights, units, strict=True)]
        return {"interval": intervals.of_scores(observed, seed).model_dump()}
