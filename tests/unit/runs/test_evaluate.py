from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline import checkpoint, progress, quality_records, store
from pipeline.engines import Completion
from pipeline.engines import transformers as engine
from pipeline.quality_records import FinishReason, ItemPrompt, QualityRecord
from pipeline.records import EngineInfo, Status
from pipeline.runs import evaluate
from pipeline.tokenizer import Tokenizer


def job(batch_size: int = 3) -> evaluate.Job:
    return evaluate.Job(
        variant="one",
        engine="transformers",
        eval_set="colours",
        eval_set_version="1.0.0",
        batch_size=batch_size,
        device="cpu",
        compute_dtype={"cpu": "float32", "cuda": "float16"},
        threads=2,
        seed=5,
    )


def prompt(name: str, length: int, limit: int) -> ItemPrompt:
    return ItemPrompt(
        item_id=name,
        category="name",
        critical=False,
        scorer="contains",
        target={"any_of": ["red"]},
        max_new_tokens=limit,
        prompt="Which colour?",
        token_ids=list(range(length)),
        prompt_sha256="0" * 64,
    )


def test_batches_hold_items_of_one_answer_limit_by_length() -> None:
    items = [prompt("a", 9, 4), prompt("b", 3, 8), prompt("c", 1, 4), prompt("d", 5, 4), prompt("e", 2, 4)]
    found = [[item.item_id for item in batch] for batch in evaluate.batches(items, 3)]
    assert found == [["c", "e", "d"], ["a"], ["b"]]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_every_item_is_in_one_batch_whatever_the_size_and_order(size: int) -> None:
    items = [prompt(f"i{n}", n % 4 + 1, 4 + n % 2) for n in range(11)]
    found = list(evaluate.batches(items, size))
    assert sorted(item.item_id for batch in found for item in batch) == sorted(item.item_id for item in items)
    assert all(1 <= len(batch) <= size for batch in found)
    assert all(len({item.max_new_tokens for item in batch}) == 1 for batch in found)
    assert found == list(evaluate.batches(items[::-1], size))


def test_no_items_make_no_batches() -> None:
    assert list(evaluate.batches([], 3)) == []


class FakeSession:
    """Answers with the text that `answers` holds for the item's place in the eval set."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.limits: list[tuple[int, int]] = []
        self._tokenizer = Tokenizer(store.BASE)
        items = evaluate.read_prompts("colours")
        self._answers = {tuple(item.token_ids): answers[item.item_id] for item in items}

    def misplaced(self) -> list[str]:
        return []

    def generate(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Completion]:
        self.limits.append((len(prompts), max_new_tokens))
        return [self._completion(self._answers[tuple(ids)]) for ids in prompts]

    def _completion(self, text: str) -> Completion:
        cut = text.endswith("…")
        return Completion(self._tokenizer.text(text.rstrip("…")), FinishReason.LENGTH if cut else FinishReason.STOP)

    def info(self) -> EngineInfo:
        """Names one kernel for each batch that was answered."""
        return EngineInfo(
            name="fake",
            packages={},
            device="cpu",
            device_name="CPU",
            compute_dtype="float32",
            threads=2,
            kernels={"Linear": len(self.limits)},
            fallback_kernels={},
            attention="eager",
        )


def run(monkeypatch: pytest.MonkeyPatch, **answers: str) -> tuple[QualityRecord, FakeSession]:
    session = FakeSession({name.replace("_", "-"): text for name, text in answers.items()})
    monkeypatch.setattr(engine, "load", lambda *_: session)
    return evaluate.run(job()), session


@pytest.mark.usefixtures("project")
def test_each_item_is_scored_by_the_scorer_of_its_category(monkeypatch: pytest.MonkeyPatch) -> None:
    record, session = run(
        monkeypatch, pick_1="Red, I think", name_1="It is blue…", shape_1="", fields_1='{"colour": "RED", "doors": 5}'
    )
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
    assert session.limits == [(1, 4), (2, 6), (1, 12)]
    assert record.overall is not None
    assert (record.overall.n, record.overall.mean) == (4, 0.375)
    assert {name: interval.mean for name, interval in record.categories.items()} == {
        "pick": 1,
        "name": 0,
        "shape": 0,
        "fields": 0.5,
    }
    assert record.finish_reasons == {FinishReason.STOP: 3, FinishReason.LENGTH: 1}
    assert record.empty_outputs == 1
    assert record.status is Status.OK
    assert record.decoding == {"method": "greedy", "batch_size": 3, "seed": 5}
    assert record.eval_set_sha256 == store.sha256_file(store.eval_set_prompts("colours"))


@pytest.mark.usefixtures("project")
def test_the_engine_is_described_as_it_was_after_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    record, session = run(monkeypatch, pick_1="x", name_1="x", shape_1="x", fields_1="{}")
    assert record.engine is not None
    assert record.engine.kernels == {"Linear": len(session.limits)}
    assert len(session.limits) == 3


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
    run(monkeypatch, pick_1="Red\u2028blue", name_1="red", shape_1="x", fields_1="{}")
    assert quality_records.load_items(store.quality_items("one", "colours"))[0].output == "Red\u2028blue"
