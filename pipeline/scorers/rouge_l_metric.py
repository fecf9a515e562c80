"""Outputs and references → ROUGE-L F1 of each pair, as a metric of Hugging Face `evaluate`.

`evaluate.load` reads the imports of this file as text: one module per `import` line, nothing relative.
Call it through `pipeline.scorers.similarity`.
"""

import datasets
import evaluate
from rouge_score import rouge_scorer

from pipeline.scorers import words

DESCRIPTION = (
    "F1 of the longest common subsequence of words (Lin 2004, https://aclanthology.org/W04-1013), computed by "
    "rouge-score; each Han, kana or Hangul character counts as a word, letters beyond ASCII are kept, no stemming."
)
INPUTS = """
Args:
    predictions: outputs.
    references: one reference for each.
Returns:
    scores: 0..1 for each pair.
"""


class Words:
    """The tokenizer of rouge-score's interface; its own drops every character beyond ASCII."""

    def tokenize(self, text: str) -> list[str]:
        return words.tokens(text)


class RougeL(evaluate.Metric):  # type: ignore[misc]
    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation="",
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": text, "references": text}),
        )

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, list[float]]:
        scorer = rouge_scorer.RougeScorer(["rougeL"], tokenizer=Words())
        pairs = zip(references, predictions, strict=True)
        return {"scores": [float(scorer.score(wanted, found)["rougeL"].fmeasure) for wanted, found in pairs]}
