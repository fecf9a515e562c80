"""Score one artifact on one eval set: greedy answers to every item, each scored by its category's scorer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline import checkpoint, plugins, progress, records, store
from pipeline.engines import Completion, EngineOptions, Session, misplaced_reason
from pipeline.metrics.aggregation import aggregate_scores
from pipeline.probes import device
from pipeline.quality_records import ItemPrompt, ItemResult, QualityRecord
from pipeline.records import Status
from pipeline.scorers import SCORERS
from pipeline.tokenizer import Tokenizer


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    engine: str
    eval_set: str
    eval_set_version: str
    batch_size: int
    device: str
    compute_dtype: dict[str, str]
    threads: int
    seed: int


def run(job: Job) -> QualityRecord:
    """Answer and score every item, write the items file, return the summary."""
    manifest = checkpoint.read_manifest(store.artifact(job.variant))
    items = read_prompts(job.eval_set)
    on = device.resolve(job.device)
    device.seed(job.seed)
    session: Session = plugins.load("pipeline.engines", job.engine).load(
        store.artifact(job.variant), EngineOptions(on, job.compute_dtype[on], job.threads)
    )
    common: dict[str, Any] = {
        "variant": job.variant,
        "eval_set": job.eval_set,
        "eval_set_version": job.eval_set_version,
        "eval_set_sha256": store.sha256_file(store.eval_set_prompts(job.eval_set)),
        "artifact_sha256": manifest.artifact_sha256,
        "decoding": {"method": "greedy", "batch_size": job.batch_size, "seed": job.seed},
    }
    misplaced = session.misplaced()
    if misplaced:
        reason = misplaced_reason(misplaced, on)
        return QualityRecord(status=Status.INVALID, reason=reason, engine=session.info(), **common)
    start = time.monotonic()
    completions = _answer(session, items, job.batch_size)
    wall_s = time.monotonic() - start
    tokenizer = Tokenizer(store.BASE)
    results = [score(item, completions[item.item_id], tokenizer) for item in items]
    records.save_items(store.quality_items(job.variant, job.eval_set), results)
    categories = {
        name: aggregate_scores([result.score for result in results if result.category == name], job.seed)
        for name in dict.fromkeys(result.category for result in results)
    }
    return QualityRecord(
        status=Status.OK,
        overall=aggregate_scores([result.score for result in results], job.seed),
        categories=categories,
        finish_reasons=dict(Counter(result.finish_reason for result in results)),
        empty_outputs=sum(not result.output.strip() for result in results),
        wall_s=wall_s,
        engine=session.info(),
        **common,
    )


def read_prompts(eval_set: str) -> list[ItemPrompt]:
    return [ItemPrompt.model_validate_json(line) for line in store.read_lines(store.eval_set_prompts(eval_set))]


def score(item: ItemPrompt, completion: Completion, tokenizer: Tokenizer) -> ItemResult:
    output = tokenizer.decode(completion.token_ids)
    value = SCORERS[item.scorer].score(output, item.target)
    return ItemResult(
        item_id=item.item_id,
        category=item.category,
        critical=item.critical,
        prompt_sha256=item.prompt_sha256,
        prompt=item.prompt,
        target=item.target,
        output=output,
        score=value,
        passed=value == 1,
        finish_reason=completion.finish_reason,
        output_tokens=len(completion.token_ids),
    )


def batches(items: Sequence[ItemPrompt], size: int) -> Iterator[list[ItemPrompt]]:
    """Batches of items with one answer limit and similar prompt lengths, so that little is padded."""
    ordered = sorted(items, key=lambda item: (item.max_new_tokens, len(item.token_ids), item.item_id))
    batch: list[ItemPrompt] = []
    for item in ordered:
        if batch and (len(batch) == size or batch[0].max_new_tokens != item.max_new_tokens):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def _answer(session: Session, items: Sequence[ItemPrompt], batch_size: int) -> dict[str, Completion]:
    completions: dict[str, Completion] = {}
    for batch in batches(items, batch_size):
        answers = session.generate([item.token_ids for item in batch], batch[0].max_new_tokens)
        completions.update({item.item_id: answer for item, answer in zip(batch, answers, strict=True)})
        progress.report(len(completions), len(items), "items")
    return completions
