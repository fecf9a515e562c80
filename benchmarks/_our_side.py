"""This project's side of vs_lm_eval.py: the transformers engine in float32, asked as the evaluate stage asks it.

Arguments: the model's folder, the device, CPU threads.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _sides

from pipeline import batches
from pipeline.engines import EngineOptions, Question
from pipeline.quality_records import Choice, ItemPrompt
from pipeline.tokenizer import Tokenizer

Pair = tuple[list[int], list[int]]


def main() -> None:
    stream = _sides.replies()
    folder, device, threads = sys.argv[1:]
    from pipeline.engines import transformers

    session = transformers.load(Path(folder), EngineOptions(device, "float32", int(threads)))
    tokenizer = Tokenizer(Path(folder))

    def split(context: str, choices: list[str]) -> list[Pair]:
        """As lm-eval does it: a choice's tokens are those that the text has beyond its context's."""
        own = tokenizer.text(context)
        return [(own, tokenizer.text(context + choice)[len(own) :]) for choice in choices]

    def token_ids(questions: list[Any], prompts: list[str]) -> Any:
        return [split(*question) for question in questions], [tokenizer.text(prompt) for prompt in prompts]

    def choices(questions: list[Any], batch_size: int) -> list[list[float]]:
        items = []
        for number, (context, texts) in enumerate(questions):
            pairs = split(context, texts)
            following = [
                Choice(text=text, token_ids=ids, bytes=len(text.encode()))
                for text, (_, ids) in zip(texts, pairs, strict=True)
            ]
            items.append(item(number, pairs[0][0], 1, following))
        found: dict[str, list[float]] = {}
        for batch in batches.plan(items, batch_size):
            asked = [Question(one.token_ids, [choice.token_ids for choice in one.choices]) for one in batch.items]
            answers = session.choice_logprobs(asked, batch.shared)
            found.update(zip((one.item_id for one in batch.items), answers, strict=True))
        return [found[one.item_id] for one in items]

    def generate(prompts: list[str], max_tokens: int, batch_size: int) -> list[str]:
        items = [item(number, tokenizer.text(prompt), max_tokens) for number, prompt in enumerate(prompts)]
        found: dict[str, str] = {}
        for batch in batches.plan(items, batch_size):
            answers = session.generate([one.token_ids for one in batch.items], max_tokens, batch.shared)
            texts = (tokenizer.decode(answer.token_ids) for answer in answers)
            found.update(zip((one.item_id for one in batch.items), texts, strict=True))
        return [found[one.item_id] for one in items]

    def versions() -> dict[str, str]:
        return {name: version(name) for name in ("torch", "transformers")}

    _sides.serve(stream, {"token_ids": token_ids, "choices": choices, "generate": generate, "versions": versions})


def item(number: int, token_ids: list[int], max_tokens: int, choices: list[Choice] | None = None) -> ItemPrompt:
    return ItemPrompt(
        item_id=f"item-{number:06}",
        category="any",
        critical=False,
        scorer="multiple_choice" if choices else "contains_any",
        target=None,
        max_new_tokens=max_tokens,
        prompt="",
        token_ids=token_ids,
        prompt_sha256="0" * 64,
        choices=choices or [],
    )


if __name__ == "__main__":
    main()
