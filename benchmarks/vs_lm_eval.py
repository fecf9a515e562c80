"""Items a second of lm-eval's `hf` model and of this project's transformers engine: same model, items and threads.

Three workloads: four-choice items zero-shot, the same behind one 5-shot prompt, and free answers of at most 64 tokens.
Both sides hold the model in float32 in a process of their own, get texts and give log-probabilities or texts, so both
tokenize; that their token ids are equal is checked first. No chat template is used. lm-eval is asked through
`HFLM.loglikelihood` and `HFLM.generate_until`. Each side tries the batch sizes and keeps its best for each workload,
then both take turns.

    python -m venv LMEVAL && LMEVAL/bin/pip install lm-eval==0.4.13 torch==2.13.0 transformers==5.24.0 accelerate
    python benchmarks/vs_lm_eval.py --lm-eval-python LMEVAL/bin/python --choices-csv queries.csv \\
        --generation-jsonl gsm8k.jsonl

The CSV holds a text and its label a line, under a header; the JSONL a `question` a line. Run it in a project folder
whose base model is made (`dvc repro base`), or name a model's folder. The last line is JSON: how many times as many
items a second as lm-eval this project answers, the median over the rounds, and the share of four-choice items of which
both pick the same.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import _sides
from _sides import Answer, Side

from pipeline import store

SHOTS = 5
CHOICES = 4
MAX_TOKENS = 64
BATCH_SIZES = (4, 8, 16, 32, 64, 128)
TUNED_ON = 4
"""Every so manyth four-choice item serves to find the best batch size, and every item that is answered freely."""


@dataclass(frozen=True)
class Workload:
    name: str
    items: Sequence[Any]
    ask: Callable[[Side, Sequence[Any], int], Answer]
    tuned_on: Sequence[Any]


@dataclass(frozen=True)
class Compared:
    ratio: float
    """Our items a second over lm-eval's, the median over the rounds."""
    theirs: Sequence[Any]
    ours: Sequence[Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm-eval-python", required=True, help="Python of the environment that holds lm-eval")
    parser.add_argument("--choices-csv", type=Path, required=True)
    parser.add_argument("--generation-jsonl", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=store.BASE)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--questions", type=int, default=200, help="four-choice items")
    parser.add_argument("--prompts", type=int, default=100, help="items that are answered freely")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=BATCH_SIZES, help="of which each keeps its best")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    questions, prefix, right = four_choice_items(asked.choices_csv, asked.questions, asked.seed)
    behind = [(prefix + context, choices) for context, choices in questions]
    prompts = free_prompts(asked.generation_jsonl, asked.prompts)
    model = (str(asked.model), asked.device)
    with (
        _sides.start(asked.lm_eval_python, "_lm_eval_side.py", *model, threads=asked.threads) as theirs,
        _sides.start(sys.executable, "_our_side.py", *model, threads=asked.threads) as ours,
    ):
        for side in (theirs, ours):
            print(", ".join(f"{name} {version}" for name, version in side.ask("versions").result.items()))
        check_token_ids(theirs, ours, [*questions, *behind], prompts)
        workloads = [
            Workload("choices", questions, choose, questions[::TUNED_ON]),
            Workload("fewshot", behind, choose, behind[::TUNED_ON]),
            Workload("generation", prompts, write, prompts),
        ]
        zero, few, free = (compare(workload, theirs, ours, asked.rounds, asked.batch_sizes) for workload in workloads)
    for name, found in (("zero-shot", zero), ("5-shot", few)):
        shares = [agreement(picks(answers), right) for answers in (found.theirs, found.ours)]
        print(f"{name}: lm-eval picks the right choice of {shares[0]:.1%}, we of {shares[1]:.1%}")
    print(f"answered freely: {agreement(free.theirs, free.ours):.1%} of the texts are equal")
    same = agreement(picks([*zero.theirs, *few.theirs]), picks([*zero.ours, *few.ours]))
    ratios = {"choices_ratio": zero.ratio, "fewshot_ratio": few.ratio, "generation_ratio": free.ratio}
    print(json.dumps({name: round(value, 4) for name, value in {**ratios, "agreement": same}.items()}))


def four_choice_items(path: Path, count: int, seed: int) -> tuple[list[tuple[str, list[str]]], str, list[int]]:
    """Contexts with their choices, the worked examples to stand before them, and the number of each right choice."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [(text, label.replace("_", " ")) for text, label, *_ in list(csv.reader(lines))[1:]]
    labels = sorted({label for _, label in rows})
    if len(rows) < count + SHOTS or len(labels) < CHOICES:
        sys.exit(f"{path}: {len(rows)} texts with {len(labels)} labels, but {count + SHOTS} with {CHOICES} are needed")
    random = Random(seed)
    drawn = random.sample(rows, count + SHOTS)
    prefix = "".join(f"{context(text)} {label}\n\n" for text, label in drawn[:SHOTS])
    items, right = [], []
    for text, label in drawn[SHOTS:]:
        choices = [label, *random.sample([other for other in labels if other != label], CHOICES - 1)]
        random.shuffle(choices)
        items.append((context(text), [f" {choice}" for choice in choices]))
        right.append(choices.index(label))
    return items, prefix, right


def context(text: str) -> str:
    return f"Customer: {text}\nTopic:"


def free_prompts(path: Path, count: int) -> list[str]:
    """Worded as in lm-eval's own gsm8k task, without examples."""
    questions = [json.loads(line)["question"] for line in path.read_text(encoding="utf-8").splitlines()[:count]]
    if len(questions) < count:
        sys.exit(f"{path}: {len(questions)} questions, but {count} are needed")
    return [f"Question: {question}\nAnswer:" for question in questions]


def choose(side: Side, questions: Sequence[Any], batch_size: int) -> Answer:
    return side.ask("choices", questions=questions, batch_size=batch_size)


def write(side: Side, prompts: Sequence[Any], batch_size: int) -> Answer:
    return side.ask("generate", prompts=prompts, max_tokens=MAX_TOKENS, batch_size=batch_size)


def check_token_ids(theirs: Side, ours: Side, questions: Sequence[Any], prompts: Sequence[str]) -> None:
    found = [side.ask("token_ids", questions=questions, prompts=prompts).result for side in (theirs, ours)]
    if found[0] != found[1]:
        sys.exit("the two sides make different token ids of the same texts: nothing can be compared")
    contexts = [len(pairs[0][0]) for pairs in found[0][0]]
    choices = [len(choice) for pairs in found[0][0] for _, choice in pairs]
    half = len(contexts) // 2
    print(
        f"equal token ids; mean tokens: {statistics.mean(contexts[:half]):.0f} of a context, "
        f"{statistics.mean(contexts[half:]):.0f} behind {SHOTS} examples, {statistics.mean(choices):.1f} of a choice, "
        f"{statistics.mean(map(len, found[0][1])):.0f} of a prompt"
    )


def compare(workload: Workload, theirs: Side, ours: Side, rounds: int, batch_sizes: Sequence[int]) -> Compared:
    """Both in turn, each with the batch size that suits it best."""
    sides = (theirs, ours)
    sizes = [best_batch_size(workload, side, batch_sizes) for side in sides]
    ratios = []
    for number in range(rounds):
        answers = [Answer(0, None)] * 2
        for which in (0, 1) if number % 2 else (1, 0):
            answers[which] = workload.ask(sides[which], workload.items, sizes[which])
        rates = [len(workload.items) / answer.seconds for answer in answers]
        ratios.append(rates[1] / rates[0])
        print(
            f"{workload.name} {number + 1}: lm-eval {rates[0]:.2f} items/s (batch {sizes[0]}), "
            f"we {rates[1]:.2f} (batch {sizes[1]}): {ratios[-1]:.2f} times",
            flush=True,
        )
    return Compared(statistics.median(ratios), *(answer.result for answer in answers))


def best_batch_size(workload: Workload, side: Side, batch_sizes: Sequence[int]) -> int:
    workload.ask(side, workload.tuned_on[:1], 1)  # what is done once at first use
    seconds = {size: workload.ask(side, workload.tuned_on, size).seconds for size in batch_sizes}
    return min(seconds, key=seconds.__getitem__)


def picks(answers: Sequence[Sequence[float]]) -> list[int]:
    """The number of the likeliest choice of each question."""
    return [max(range(len(logprobs)), key=logprobs.__getitem__) for logprobs in answers]


def agreement(one: Sequence[Any], other: Sequence[Any]) -> float:
    return sum(bool(a == b) for a, b in zip(one, other, strict=True)) / len(one)


if __name__ == "__main__":
    main()
