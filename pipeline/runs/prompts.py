"""Tokenize everything that the variants read, once: eval items, speed workloads, fidelity text and smoke texts."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pipeline import checkpoint, eval_sets, fidelity_text, records, smoke_texts, store
from pipeline.errors import UserError
from pipeline.quality_records import ItemPrompt
from pipeline.records import WorkloadPrompt, WorkloadPrompts
from pipeline.tokenizer import Tokenizer


class WorkloadJob(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    prompt_tokens: int
    output_tokens: int
    concurrency: int
    pairs: int


class FidelityJob(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    tokens: int
    window_tokens: int


class SmokeJob(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    texts: int
    tokens: int
    prompts: int


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    eval_sets: list[str]
    workloads: dict[str, WorkloadJob]
    fidelity: FidelityJob
    smoke: SmokeJob


def run(job: Job) -> WorkloadPrompts:
    """Write one prompts file per eval set, and one each for the workloads, the fidelity text and the smoke gate.

    Raises:
        UserError: with every faulty item, every prompt over the context, every text too short.
    """
    manifest = checkpoint.read_manifest(store.BASE)
    tokenizer = Tokenizer(store.BASE)
    problems: list[str] = []
    asked: list[ItemPrompt] = []
    for name in job.eval_sets:
        try:
            items = eval_sets.tokenize(name, tokenizer, manifest.context_length)
            records.save_items(store.eval_set_prompts(name), items)
            asked += items
        except UserError as error:
            problems.extend(error.problems)
    workloads = []
    for name, workload in job.workloads.items():
        try:
            workloads.append(_tokenize(name, workload, tokenizer, manifest.context_length))
        except UserError as error:
            problems.extend(error.problems)
    try:
        text = fidelity_text.tokenize(**job.fidelity.model_dump(), tokenizer=tokenizer, base=manifest)
        records.save(store.FIDELITY_PROMPT, text)
    except UserError as error:
        problems.extend(error.problems)
    if problems:
        raise UserError(problems)
    smoke = job.smoke
    texts = smoke_texts.make(job.fidelity.text, smoke.texts, smoke.tokens, smoke.prompts, asked, tokenizer, manifest)
    records.save(store.SMOKE_TEXTS, texts)
    prompts = WorkloadPrompts(tokenizer_sha256=manifest.tokenizer_sha256, workloads=workloads)
    records.save(store.WORKLOAD_PROMPTS, prompts)
    return prompts


def _tokenize(name: str, workload: WorkloadJob, tokenizer: Tokenizer, context: int) -> WorkloadPrompt:
    place = f"benchmark.workloads.{name}"
    if workload.prompt_tokens + workload.output_tokens > context:
        raise UserError(
            f"{place}: {workload.prompt_tokens} prompt and {workload.output_tokens} output tokens exceed the "
            f"model's context of {context}"
        )
    ids = tokenizer.text(Path(workload.text).read_text(encoding="utf-8"))
    if len(ids) < workload.prompt_tokens:
        raise UserError(
            f"{place}: prompt_tokens is {workload.prompt_tokens}, but {workload.text} has only {len(ids)} tokens; "
            "lengthen the text or lower prompt_tokens"
        )
    ids = ids[: workload.prompt_tokens]
    return WorkloadPrompt(
        workload=name,
        token_ids=ids,
        prompt_sha256=store.sha256_json(ids),
        output_tokens=workload.output_tokens,
        concurrency=workload.concurrency,
        pairs=workload.pairs,
    )
