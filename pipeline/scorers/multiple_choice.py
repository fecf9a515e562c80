"""Multiple choice by likelihood: of the choices the model gives the likeliest, nothing is generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.scorers.targets import are_texts, shape_problems


@dataclass(frozen=True)
class Picks:
    """Index of the choice picked in two ways; of equally likely ones the first."""

    raw: int
    """By log-probability as it is; favours short choices."""
    normalised: int
    """By log-probability per UTF-8 byte, so that choices of different lengths and tokenizers compare."""


def pick(logprobs: Sequence[float], sizes: Sequence[int]) -> Picks:
    """The likeliest choice, from the sum of each one's natural log-probabilities and its UTF-8 length in bytes.

    Raw is argmax Σ log p, per byte argmax Σ log p / bytes: `acc` and `acc_bytes` of lm-evaluation-harness (Gao 2021,
    "Multiple Choice Normalization in LM Evaluation").

    Raises:
        ValueError: no choices, not one size for each, or a choice without bytes.
    """
    if not logprobs or len(logprobs) != len(sizes) or min(sizes) < 1:
        raise ValueError(f"{len(logprobs)} log-probabilities with sizes {list(sizes)}: each choice needs one above 0")
    per_byte = [logprob / size for logprob, size in zip(logprobs, sizes, strict=True)]
    return Picks(raw=logprobs.index(max(logprobs)), normalised=per_byte.index(max(per_byte)))


def score(output: str, target: dict[str, Any]) -> float:
    """1 when the output is the answer's text, as it stands among the choices."""
    return float(output == target["answer"])


def target_problems(target: Any) -> list[str]:
    if found := shape_problems(target, '{"choices": […], "answer": "one of them"}', {"choices", "answer"}):
        return found
    choices, answer = target["choices"], target["answer"]
    if not are_texts(choices) or len(choices) < 2:
        return ["target.choices must be a list of at least two texts"]
    if len(set(choices)) != len(choices):
        return ["target.choices has the same choice twice"]
    if answer not in choices:
        return [f"target.answer {answer!r} is not among its choices ({', '.join(choices)})"]
    return []
