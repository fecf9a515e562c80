"""Outputs and references → chrF of each pair, as a metric of Hugging Face `evaluate`.

`evaluate.load` reads the imports of this file as text: one module per `import` line, nothing relative.
Call it through `pipeline.scorers.similarity`.
"""

import datasets
import evaluate
from sacrebleu.metrics import chrf

DESCRIPTION = (
    "Character n-gram F2 up to 6 characters, white space left out (Popović 2015, https://aclanthology.org/W15-3049), "
    "computed by sacrebleu with its default settings."
)
INPUTS = """
Args:
    predictions: outputs.
    references: one reference for each.
Returns:
    scores: 0..1 for each pair.
"""


class Chrf(evaluate.Metric):  # type: ignore[misc]
    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": text, "references": text}),
        )

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, list[float]]:
        metric = chrf.CHRF()
        pairs = zip(predictions, references, strict=True)
        return {"scores": [float(metric.sentence_score(found, [wanted]).score) / 100 for found, wanted in pairs]}
