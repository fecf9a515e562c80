"""lm-eval's side of vs_lm_eval.py: its `hf` model in float32. Runs in lm-eval's own environment.

Arguments: the model's folder, the device, CPU threads. No chat template is used.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from itertools import groupby
from typing import Any

import _sides


def main() -> None:
    stream = _sides.replies()
    folder, device, threads = sys.argv[1:]
    import torch
    from lm_eval.api.instance import Instance  # type: ignore[import-not-found]
    from lm_eval.models.huggingface import HFLM  # type: ignore[import-not-found]

    torch.set_num_threads(int(threads))
    model = HFLM(pretrained=folder, device=device, dtype="float32")

    def token_ids(questions: list[Any], prompts: list[str]) -> Any:
        pairs = [[model._encode_pair(context, choice) for choice in choices] for context, choices in questions]
        return [[[list(context), list(choice)] for context, choice in row] for row in pairs], [
            list(model.tok_encode(prompt)) for prompt in prompts
        ]

    def choices(questions: list[Any], batch_size: int) -> list[list[float]]:
        model.batch_size_per_gpu = batch_size
        requests = [(number, context, choice) for number, (context, row) in enumerate(questions) for choice in row]
        found = model.loglikelihood(
            [Instance("loglikelihood", {}, (context, choice), number) for number, context, choice in requests],
            disable_tqdm=True,
        )
        rows = groupby(zip(requests, found, strict=True), key=lambda pair: pair[0][0])
        return [[logprob for _, (logprob, _) in row] for _, row in rows]

    def generate(prompts: list[str], max_tokens: int, batch_size: int) -> list[str]:
        model.batch_size_per_gpu = batch_size
        settings = {"until": [], "max_gen_toks": max_tokens, "do_sample": False}
        return list(
            model.generate_until(
                [Instance("generate_until", {}, (prompt, settings), number) for number, prompt in enumerate(prompts)],
                disable_tqdm=True,
            )
        )

    def versions() -> dict[str, str]:
        return {name: version(name) for name in ("lm_eval", "torch", "transformers")}

    _sides.serve(stream, {"token_ids": token_ids, "choices": choices, "generate": generate, "versions": versions})


if __name__ == "__main__":
    main()
