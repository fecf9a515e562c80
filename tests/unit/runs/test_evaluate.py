from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline import batches, checkpoint, judge, progress, quality_records, records, store
from pipeline.engines import Completion, Question
from pipeline.engines import transformers as engine
from pipeline.judge_settings import JudgeSettings
from pipeline.quality_records import Choice, FinishReason, Flaw, Invariance, ItemPrompt, JudgeUse, QualityRecord
from pipeline.records import EngineInfo, Status, known, missing
from pipeline.runs import evaluate
from pipeline.tokenizer import Tokenizer


def job(batch_size: int = 3, invariance_items: int = 0, judge: JudgeSettings | None = None) -> evaluate.Job:
    return evaluate.Job(
        variant="one",
        engine="transformers",
        eval_set="colours",
        eval_set_version="1.0.0",
        batch_size=batch_size,
        invariance_items=invariance_items,
        device="cpu",
        compute_dtype={"cpu": "float32", "cuda": "float16"},
        threads=2,
        seed=5,
        judge=judge,
    )


class FakeSession:
    """Answers with the text that `answers` holds for the item; picks the choice that is named there."""

    def __init__(
        self,
        answers: Mapping[str, str],
        dies_at: int | None = None,
        alone: Mapping[str, str] = {},
        dies_of: BaseException | None = None,
    ) -> None:
        self.asked: list[tuple[int, int]] = []
        """Items and answer limit of each batch."""
        self.shared: list[tuple[int, ...]] = []
        self._dies_at = dies_at
        self._dies_of = dies_of or KeyboardInterrupt()
        self._tokenizer = Tokenizer(store.BASE)
        self._items = {tuple(item.token_ids): item for item in evaluate.read_prompts("colours")}
        self._answers = answers
        self._alone = alone

    def misplaced(self) -> list[str]:
        return []

    def generate(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, shared: Sequence[int] = ()
    ) -> list[Completion]:
        self._note(len(prompts), max_new_tokens, shared)
        answers = {**self._answers, **(self._alone if len(prompts) == 1 else {})}
        return [self._completion(answers[self._items[tuple(ids)].item_id]) for ids in prompts]

    def choice_logprobs(self, questions: Sequence[Question], shared: Sequence[int] = ()) -> list[list[float]]:
        self._note(len(questions), 0, shared)
        found = []
        for question in questions:
            item = self._items[tuple(question.prompt)]
            assert question.choices == [choice.token_ids for choice in item.choices]
            found.append([-1.5 if choice.text == self._answers[item.item_id] else -2.5 for choice in item.choices])
        return found

    def _note(self, prompts: int, limit: int, shared: Sequence[int]) -> None:
        if len(self.asked) == self._dies_at:
            raise self._dies_of
        self.asked.append((prompts, limit))
        self.shared.append(tuple(shared))

    def _completion(self, text: str) -> Completion:
        cut = text.endswith("…")
        return Completion(self._tokenizer.text(text.rstrip("…")), FinishReason.LENGTH if cut else FinishReason.STOP)

    def info(self) -> EngineInfo:
        return EngineInfo(
            name="fake",
            packages={},
            device="cpu",
            device_name="CPU",
            compute_dtype="float32",
            threads=2,
            kernels={"Linear": 3},
            fallback_kernels={},
            attention="eager",
        )


GOOD = {"pick-1": "Red, I think", "name-1": "It is blue…", "shape-1": "", "fields-1": '{"colour": "RED", "doors": 5}'}


def run(
    monkeypatch: pytest.MonkeyPatch,
    answers: Mapping[str, str] = GOOD,
    asked: evaluate.Job | None = None,
    **session: Any,
) -> tuple[QualityRecord, FakeSession]:
    fake = FakeSession(answers, **session)
    monkeypatch.setattr(engine, "load", lambda *_: fake)
    return evaluate.run(asked or job()), fake


def change_prompts(**changes: Any) -> None:
    """Change the prompt of the item `pick-1` as it was tokenized."""
    items = [
        item.model_copy(update=changes) if item.item_id == "pick-1" else item
        for item in evaluate.read_prompts("colours")
    ]
    records.save_items(store.eval_set_prompts("colours"), items)


@pytest.mark.usefixtures("project")
def test_each_item_is_scored_by_the_scorer_of_its_category(monkeypatch: pytest.MonkeyPatch) -> None:
    record, session = run(monkeypatch)
    items = quality_records.load_items(store.quality_items("one", "colours"))
    assert [(item.item_id, item.score, item.passed) for item in items] == [
        ("pick-1", 1, True),
        ("name-1", 0, False),
        ("shape-1", 0, False),
        ("fields-1", 0.5, False),
    ]
    assert [item.finish_reason for item in items] == ["stop", "length", "stop", "stop"]
    assert [item.critical for item in items] == [False, False, True, False]
    assert items[3].output == '{"colour": "RED", "doors": 5}'
    assert items[2].output_tokens == 0
    # The limits of the card: 4 for choices, 6 for two categories that share a batch, 12 for fields.
    assert session.asked == [(1, 4), (2, 6), (1, 12)]
    shared = batches.common_prefix([item.token_ids for item in evaluate.read_prompts("colours")])
    assert shared
    assert session.shared == [shared] * 3
    assert record.overall is not None
    assert (record.overall.n, record.overall.mean) == (4, 0.375)
    assert {name: interval.mean for name, interval in record.categories.items()} == {
        "pick": 1,
        "name": 0,
        "shape": 0,
        "fields": 0.5,
    }
    assert record.finish_reasons == {FinishReason.STOP: 3, FinishReason.LENGTH: 1}
    assert [item.flaw for item in items] == [None, None, Flaw.EMPTY, None]
    assert record.flaws == {Flaw.EMPTY: 1}
    assert record.over_context == []
    assert record.invariance is None
    assert record.status is Status.OK
    assert record.decoding == {"method": "greedy", "batch_size": 3, "seed": 5}
    assert record.eval_set_sha256 == store.sha256_file(store.eval_set_prompts("colours"))


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("picked", "score"), [("blue", 0), ("red", 1)])
def test_the_likeliest_choice_is_the_answer(monkeypatch: pytest.MonkeyPatch, picked: str, score: float) -> None:
    choices = [Choice(text=text, token_ids=[number], bytes=len(text)) for number, text in enumerate(("red", "blue"))]
    change_prompts(choices=choices, scorer="multiple_choice")
    record, session = run(monkeypatch, GOOD | {"pick-1": picked})
    item = quality_records.load_items(store.quality_items("one", "colours"))[0]
    assert (item.output, item.score, item.finish_reason) == (picked, score, FinishReason.CHOICE)
    assert item.choice_logprobs == ([-1.5, -2.5] if picked == "red" else [-2.5, -1.5])
    assert (item.output_tokens, item.flaw) == (0, None)
    assert record.finish_reasons[FinishReason.CHOICE] == 1
    assert session.asked == [(2, 6), (1, 12), (1, 0)]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("dies_at", "reason"),
    [
        (0, r"^out of memory over one item \(MemoryError: no 2 GiB\); nothing smaller can be asked$"),
        (1, r"^out of memory over 2 items at once \(MemoryError: no 2 GiB\); lower evaluate.batch_size$"),
    ],
)
def test_want_of_memory_says_what_to_lower(monkeypatch: pytest.MonkeyPatch, dies_at: int, reason: str) -> None:
    with pytest.raises(evaluate.NoRoom, match=reason):
        run(monkeypatch, dies_at=dies_at, dies_of=MemoryError("no 2 GiB"))


@pytest.mark.usefixtures("project")
def test_any_other_mistake_is_not_taken_for_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^bad$"):
        run(monkeypatch, dies_at=1, dies_of=ValueError("bad"))


@pytest.mark.usefixtures("project")
def test_an_item_over_the_context_is_named_and_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    change_prompts(over_context=True)
    record, session = run(monkeypatch)
    assert record.over_context == ["pick-1"]
    assert record.overall is not None
    assert record.overall.n == 3
    assert [item.item_id for item in quality_records.load_items(store.quality_items("one", "colours"))] == [
        "name-1",
        "shape-1",
        "fields-1",
    ]
    assert session.asked == [(2, 6), (1, 12)]


@pytest.mark.usefixtures("project")
def test_a_set_of_which_nothing_fits_is_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [item.model_copy(update={"over_context": True}) for item in evaluate.read_prompts("colours")]
    records.save_items(store.eval_set_prompts("colours"), items)
    record, _ = run(monkeypatch)
    assert record.status is Status.FAILED
    assert "none of the 4 items fits" in str(record.reason)
    assert len(record.over_context) == 4


@pytest.mark.usefixtures("project")
def test_what_the_batch_alone_changes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    # Only two items share a batch; alone, one says another wrong thing and the other gets it right.
    alone = {"name-1": "It is green…", "shape-1": "round"}
    record, session = run(monkeypatch, asked=job(invariance_items=9), alone=alone)
    assert record.invariance == Invariance(items=2, differing=2, flips=["shape-1"])
    assert session.asked == [(1, 4), (2, 6), (1, 12), (1, 6), (1, 6)]
    assert record.finish_reasons == {FinishReason.STOP: 3, FinishReason.LENGTH: 1}
    again, _ = run(monkeypatch, asked=job(invariance_items=1))
    assert again.invariance == Invariance(items=1, differing=0, flips=[])


JUDGE = JudgeSettings(base_url="http://judge.example/v1", model="judge-1")


@pytest.mark.usefixtures("project")
def test_a_language_model_scores_the_items_that_want_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[tuple[str, str]]] = []

    def scores(items: Sequence[ItemPrompt], outputs: Sequence[str], settings: JudgeSettings) -> list[float]:
        assert settings == JUDGE
        asked.append([(item.item_id, output) for item, output in zip(items, outputs, strict=True)])
        return [float(output.startswith("It")) for output in outputs]

    items = [
        item.model_copy(update={"scorer": "judge", "target": {"rubric": "polite"}})
        if item.item_id in ("name-1", "shape-1")
        else item
        for item in evaluate.read_prompts("colours")
    ]
    records.save_items(store.eval_set_prompts("colours"), items)
    label = {"prompt": "p", "output": "o", "rubric": "r", "passed": True}
    Path("eval_sets/colours/labels.jsonl").write_text(json.dumps(label) + "\n")
    use = JudgeUse(model="judge-1", labelled=1, agreement=known(1), kappa=missing("one label"))
    monkeypatch.setattr(judge, "scores", scores)
    monkeypatch.setattr(judge, "measure_agreement", lambda labels, settings: use if len(labels) == 1 else None)
    alone = {"name-1": "It is blue…", "shape-1": "It is round"}
    record, _ = run(monkeypatch, asked=job(invariance_items=9, judge=JUDGE), alone=alone)
    # Alone only one answer is another one, so only that is judged again.
    assert asked == [[("name-1", "It is blue"), ("shape-1", "")], [("shape-1", "It is round")]]
    results = quality_records.load_items(store.quality_items("one", "colours"))
    assert [item.score for item in results] == [1, 1, 0, 0.5]
    assert record.invariance == Invariance(items=2, differing=1, flips=["shape-1"])
    assert record.judge == use
    with pytest.raises(judge.JudgeError, match=r"`judge` in params\.yaml is null"):
        run(monkeypatch)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("dies_at", range(5))
def test_a_stopped_run_goes_on_where_it_was_to_the_same_bytes(monkeypatch: pytest.MonkeyPatch, dies_at: int) -> None:
    asked = job(invariance_items=9)
    whole, _ = run(monkeypatch, asked=asked)
    items = store.quality_items("one", "colours").read_bytes()
    store.unfinished("one", "colours").unlink()
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, asked=asked, dies_at=dies_at)
    resumed, session = run(monkeypatch, asked=asked)
    assert session.asked == [(1, 4), (2, 6), (1, 12), (1, 6), (1, 6)][dies_at:]
    assert resumed.model_dump_json() == whole.model_dump_json()
    assert store.quality_items("one", "colours").read_bytes() == items


@pytest.mark.usefixtures("project")
def test_answers_to_other_prompts_or_settings_are_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch)
    _, session = run(monkeypatch)
    assert session.asked == []
    _, session = run(monkeypatch, asked=job(batch_size=4))
    assert len(session.asked) == 3
    change_prompts(prompt_sha256="1" * 64)
    _, session = run(monkeypatch, asked=job(batch_size=4))
    assert len(session.asked) == 3


@pytest.mark.usefixtures("project")
def test_answers_of_another_engine_code_are_not_taken_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pipeline.engines

    run(monkeypatch)
    (tmp_path / "transformers.py").write_text("# another one\n")
    monkeypatch.setattr(pipeline.engines, "__path__", [str(tmp_path)])
    _, session = run(monkeypatch)
    assert len(session.asked) == 3


@pytest.mark.usefixtures("project")
def test_a_real_tiny_model_answers_every_item(capsys: pytest.CaptureFixture[str]) -> None:
    record = evaluate.run(job())
    assert record.status is Status.OK
    assert record.artifact_sha256 == checkpoint.read_manifest(store.artifact("one")).artifact_sha256
    assert record.engine is not None
    assert record.engine.name == "transformers"
    items = quality_records.load_items(store.quality_items("one", "colours"))
    prompts = evaluate.read_prompts("colours")
    assert [item.item_id for item in items] == [item.item_id for item in prompts]
    assert [item.prompt_sha256 for item in items] == [item.prompt_sha256 for item in prompts]
    assert all(item.output_tokens <= asked.max_new_tokens for item, asked in zip(items, prompts, strict=True))
    assert QualityRecord.model_validate_json(record.model_dump_json()) == record
    steps = [step for step in map(progress.parse, capsys.readouterr().out.splitlines()) if step]
    assert steps[-1].done == steps[-1].total == 4


@pytest.mark.usefixtures("project")
def test_the_batch_size_does_not_change_the_answers_in_float32() -> None:
    outputs = []
    for size in (1, 4):
        evaluate.run(job(size))
        outputs.append(store.quality_items("one", "colours").read_bytes())
    assert outputs[0] == outputs[1]


def test_parameters_elsewhere_make_the_run_invalid(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project.is_dir()
    monkeypatch.setattr(engine.TransformersSession, "misplaced", lambda _: ["model.norm.weight"])
    record = evaluate.run(job())
    assert record.status is Status.INVALID
    assert record.engine is not None
    assert "model.norm.weight" in str(record.reason)


def test_whatever_the_model_writes_is_read_back(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project.is_dir()
    run(monkeypatch, GOOD | {"pick-1": "Red\u2028blue"})
    assert quality_records.load_items(store.quality_items("one", "colours"))[0].output == "Red\u2028blue"
