"""Score one artifact on one eval set: greedy answers and picked choices, each scored by its category's scorer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline import batches, checkpoint, engines, judge, progress, records, store
from pipeline.batches import Batch
from pipeline.engines import EngineOptions, Question, Session, misplaced_reason
from pipeline.errors import brief
from pipeline.journal import Journal
from pipeline.judge_settings import JudgeSettings
from pipeline.metrics.aggregation import aggregate_scores
from pipeline.probes import device
from pipeline.quality_records import FinishReason, Invariance, ItemPrompt, ItemResult, QualityRecord
from pipeline.records import EngineInfo, Status
from pipeline.scorers import SCORERS, flaws
from pipeline.tokenizer import Tokenizer


class Job(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: str
    engine: str
    eval_set: str
    eval_set_version: str
    batch_size: int
    invariance_items: int
    """Items that are asked again one by one, to see what the batch alone changes."""
    device: str
    compute_dtype: dict[str, str]
    threads: int
    seed: int
    judge: JudgeSettings | None


class Answer(BaseModel):
    """What the model gave for one item: tokens, or the log-probability of each choice."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token_ids: list[int] = []
    finish_reason: FinishReason
    logprobs: list[float] | None = None


@dataclass(frozen=True)
class Answers:
    batched: Mapping[str, Answer]
    alone: Mapping[str, Answer]
    """Of the items that were asked again one by one."""


class NoRoom(Exception):
    """The device ran out of memory over a batch."""


def run(job: Job) -> QualityRecord:
    """Answer and score every item, write the items file, return the summary.

    What an earlier run on the same artifact, prompts and engine had finished when it was stopped is taken over.

    Raises:
        NoRoom: the device ran out of memory over a batch.
    """
    manifest = checkpoint.read_manifest(store.artifact(job.variant))
    items = read_prompts(job.eval_set)
    asked = [item for item in items if not item.over_context]
    on = device.resolve(job.device)
    device.seed(job.seed)
    session = engines.load(
        job.engine, store.artifact(job.variant), EngineOptions(on, job.compute_dtype[on], job.threads)
    )
    common: dict[str, Any] = {
        "variant": job.variant,
        "eval_set": job.eval_set,
        "eval_set_version": job.eval_set_version,
        "eval_set_sha256": store.sha256_file(store.eval_set_prompts(job.eval_set)),
        "artifact_sha256": manifest.artifact_sha256,
        "decoding": {"method": "greedy", "batch_size": job.batch_size, "seed": job.seed},
        "over_context": [item.item_id for item in items if item.over_context],
        "engine": session.info(),
    }
    if misplaced := session.misplaced():
        return QualityRecord(status=Status.INVALID, reason=misplaced_reason(misplaced, on), **common)
    if not asked:
        reason = f"none of the {len(items)} items fits into the model's context with its answer"
        return QualityRecord(status=Status.FAILED, reason=reason, **common)
    answered = job.model_dump(mode="json", exclude={"judge"})
    key = store.sha256_json({**common, "engine": _engine_key(session.info()), "job": answered})
    with Journal(store.unfinished(job.variant, job.eval_set), key) as journal:
        answers = _answer(session, _work(asked, job), journal)
    tokenizer = Tokenizer(store.BASE)
    results = results_of(asked, answers.batched, tokenizer, job.judge)
    labels = judge.read_labels(job.eval_set) if job.judge and any(map(_is_judged, asked)) else []
    records.save_items(store.quality_items(job.variant, job.eval_set), results)
    return QualityRecord(
        status=Status.OK,
        overall=aggregate_scores(results, job.seed),
        categories={
            name: aggregate_scores([result for result in results if result.category == name], job.seed)
            for name in dict.fromkeys(result.category for result in results)
        },
        finish_reasons=dict(Counter(result.finish_reason for result in results)),
        flaws=dict(Counter(result.flaw for result in results if result.flaw)),
        invariance=invariance(asked, results, answers.alone, tokenizer, job.judge),
        judge=judge.measure_agreement(labels, job.judge) if job.judge and labels else None,
        **common,
    )


def read_prompts(eval_set: str) -> list[ItemPrompt]:
    return [ItemPrompt.model_validate_json(line) for line in store.read_lines(store.eval_set_prompts(eval_set))]


def results_of(
    items: Sequence[ItemPrompt],
    answers: Mapping[str, Answer],
    tokenizer: Tokenizer,
    settings: JudgeSettings | None,
) -> list[ItemResult]:
    """Every item's result. Of choices the likeliest is the output; of equally likely ones the first.

    Raises:
        JudgeError: an answer could not be judged.
    """
    outputs = [_output(item, answers[item.item_id], tokenizer) for item in items]
    scores = _scores(items, outputs, settings)
    return [
        _result(item, answers[item.item_id], output, score)
        for item, output, score in zip(items, outputs, scores, strict=True)
    ]


def invariance(
    items: Sequence[ItemPrompt],
    results: Sequence[ItemResult],
    alone: Mapping[str, Answer],
    tokenizer: Tokenizer,
    settings: JudgeSettings | None,
) -> Invariance | None:
    """How the items that were asked again one by one differ from what they gave in their batch; None without any."""
    if not alone:
        return None
    before = {result.item_id: result for result in results}
    again = [item for item in items if item.item_id in alone]
    # Where the output is the same, so is its score; a language model that judges is not asked twice.
    differing = [item for item in again if _output(item, alone[item.item_id], tokenizer) != before[item.item_id].output]
    after = results_of(differing, alone, tokenizer, settings)
    return Invariance(
        items=len(again),
        differing=len(differing),
        flips=[result.item_id for result in after if result.passed != before[result.item_id].passed],
    )


def _output(item: ItemPrompt, answer: Answer, tokenizer: Tokenizer) -> str:
    if answer.logprobs is None:
        return tokenizer.decode(answer.token_ids)
    return item.choices[answer.logprobs.index(max(answer.logprobs))].text


def _scores(items: Sequence[ItemPrompt], outputs: Sequence[str], settings: JudgeSettings | None) -> list[float]:
    places = [place for place, item in enumerate(items) if _is_judged(item)]
    if places and settings is None:
        raise judge.JudgeError("a language model scores these items, but `judge` in params.yaml is null")
    judged: Iterator[float] = iter(())
    if places and settings is not None:
        judged = iter(judge.scores([items[place] for place in places], [outputs[place] for place in places], settings))
    return [
        next(judged) if (score := SCORERS[item.scorer].score) is None else score(output, item.target)
        for item, output in zip(items, outputs, strict=True)
    ]


def _is_judged(item: ItemPrompt) -> bool:
    return SCORERS[item.scorer].score is None


def _result(item: ItemPrompt, answer: Answer, output: str, score: float) -> ItemResult:
    return ItemResult(
        item_id=item.item_id,
        category=item.category,
        critical=item.critical,
        cluster=item.cluster,
        weight=item.weight,
        prompt_sha256=item.prompt_sha256,
        prompt=item.prompt,
        target=item.target,
        output=output,
        score=score,
        passed=score == 1,
        finish_reason=answer.finish_reason,
        flaw=None if answer.logprobs else flaws.detect(output),
        output_tokens=len(answer.token_ids),
        choice_logprobs=answer.logprobs,
    )


def _work(items: Sequence[ItemPrompt], job: Job) -> list[Batch]:
    batched = batches.plan(items, job.batch_size)
    return [*batched, *batches.alone(batched, job.invariance_items)]


def _answer(session: Session, work: Sequence[Batch], journal: Journal) -> Answers:
    found: dict[bool, dict[str, Answer]] = {False: {}, True: {}}
    total, done = sum(len(batch.items) for batch in work), 0
    for number, batch in enumerate(work):
        if number < len(journal.done):
            answers = [Answer.model_validate(row) for row in journal.done[number]["answers"]]
        else:
            answers = _ask_in_memory(session, batch)
            journal.add({"answers": [answer.model_dump(mode="json") for answer in answers]})
        ids = (item.item_id for item in batch.items)
        found[batch.alone].update(zip(ids, answers, strict=True))
        done += len(batch.items)
        progress.report(done, total, "items")
    return Answers(batched=found[False], alone=found[True])


def _ask_in_memory(session: Session, batch: Batch) -> list[Answer]:
    try:
        return _ask(session, batch)
    except Exception as error:
        if not device.is_out_of_memory(error):
            raise
        count = f"{len(batch.items)} items at once" if len(batch.items) > 1 else "one item"
        remedy = "lower evaluate.batch_size" if len(batch.items) > 1 else "nothing smaller can be asked"
        raise NoRoom(f"out of memory over {count} ({brief(error)}); {remedy}") from None


def _ask(session: Session, batch: Batch) -> list[Answer]:
    if batch.chooses:
        questions = [
            Question(prompt=item.token_ids, choices=[choice.token_ids for choice in item.choices])
            for item in batch.items
        ]
        return [
            Answer(finish_reason=FinishReason.CHOICE, logprobs=logprobs)
            for logprobs in session.choice_logprobs(questions, batch.shared)
        ]
    prompts = [item.token_ids for item in batch.items]
    return [
        Answer(token_ids=completion.token_ids, finish_reason=completion.finish_reason)
        for completion in session.generate(prompts, batch.items[0].max_new_tokens, batch.shared)
    ]


def _engine_key(info: EngineInfo) -> dict[str, Any]:
    """The engine as it describes itself, and its code: answers of another one are not taken over."""
    import pipeline.engines

    [folder] = pipeline.engines.__path__
    return {
        **info.model_dump(mode="json"),
        "code": {path.name: store.sha256_file(path) for path in sorted(Path(folder).glob("*.py"))},
    }
