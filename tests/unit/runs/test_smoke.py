"""What the smoke gate says of sound artifacts, of answers, and of what a variant is not to blame for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.runs.artifacts import DOWN, Tensors, change, failures, outcomes, reading
from unit.runs.jobs import reference_job, smoke_job

from pipeline import checkpoint, records, smoke_reading, store
from pipeline.engines import transformers as engine
from pipeline.errors import UserError
from pipeline.quality_records import Flaw
from pipeline.runs import reference, smoke
from pipeline.smoke_records import Answer, CheckOutcome, Reference, SmokeRecord

pytestmark = pytest.mark.usefixtures("artifact")


# --- sound artifacts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_fp16_copy_passes_and_nothing_differs(dtype: str) -> None:
    dtypes = {"cpu": dtype, "cuda": "float16"}
    records.save(store.REFERENCE_RECORD, reference.run(reference_job(compute_dtype=dtypes)))
    record = smoke.run(smoke_job(compute_dtype=dtypes))
    assert failures(record) == []
    assert (reading(record, "distributions", "kld_mean"), reading(record, "distributions", "top1_agreement")) == (0, 1)
    assert reading(record, "distributions", "positions") == 4 * smoke_reading.SCORED
    assert list(outcomes(record)) == [
        *("files", "tokenizer", "chat template", "generation config", "special tokens"),
        *("load", "device", "weights", "distributions", "answers"),
    ]
    assert record.artifact_sha256 == checkpoint.read_manifest(store.artifact("one")).artifact_sha256
    assert record.base_artifact_sha256 == checkpoint.read_manifest(store.BASE).artifact_sha256
    assert record.engine is not None
    assert record.engine.compute_dtype == dtype


def test_looking_again_gives_the_same_bytes() -> None:
    first, second = (store.to_json(smoke.run(smoke_job()).model_dump(mode="json")) for _ in range(2))
    assert first == second


def test_a_variant_that_is_merely_worse_passes(artifact: Path) -> None:
    """Four bits and a scale for each row: a coarse method."""

    def round_to_4_bits(tensors: Tensors) -> None:
        for name, weight in tensors.items():
            if "_proj" in name:
                scale = weight.abs().amax(1, keepdim=True) / 7
                tensors[name] = (weight / scale).round() * scale

    change(artifact, round_to_4_bits)
    record = smoke.run(smoke_job())
    assert failures(record) == []
    assert reading(record, "distributions", "kld_mean") > 0


def test_an_artifact_to_be_quantized_at_load_is_stopped_on_an_engine_that_does_not(
    artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = checkpoint.read_manifest(artifact)
    records.save(artifact / store.MANIFEST, given.model_copy(update={"at_load": "saving breaks it"}))
    assert failures(smoke.run(smoke_job())) == [], "transformers does"
    monkeypatch.setattr(engine, "QUANTIZES_AT_LOAD", False)
    record = smoke.run(smoke_job())
    assert failures(record) == ["load"]
    assert record.reason is not None
    assert "engine 'transformers' does not quantize weights while it loads them" in record.reason
    assert "(saving breaks it)" in record.reason


# --- answers ---------------------------------------------------------------------------------------------------


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Flaw | None], list[Flaw | None]], SmokeRecord]:
    """What the gate says when the base and the variant give answers with these flaws."""

    def given(base: list[Flaw | None], ours: list[Flaw | None]) -> SmokeRecord:
        def answers(flaws: list[Flaw | None]) -> list[Answer]:
            return [Answer(text=f"answer {number}", flaw=flaw) for number, flaw in enumerate(flaws)]

        found = records.load(store.REFERENCE_RECORD, Reference)
        records.save(store.REFERENCE_RECORD, found.model_copy(update={"answers": answers(base)}))
        monkeypatch.setattr(smoke_reading, "answers", lambda session, prompts: answers(ours))
        return smoke.run(smoke_job())

    return given


def test_answers_without_text_where_the_base_gives_text_are_named(answer: Any) -> None:
    record = answer([None] * 5, [None, Flaw.EMPTY, Flaw.DEGENERATE, Flaw.DEGENERATE, None])
    assert failures(record) == ["answers"]
    words = "3 of 5 answers are empty or degenerate where the base's are not, e.g. 'answer 1' (empty)"
    assert record.reason == words


def test_half_of_the_answers_and_refusals_are_no_collapse(answer: Any) -> None:
    loop, refusal = Flaw.DEGENERATE, Flaw.REFUSAL
    assert failures(answer([None] * 5, [loop, loop, refusal, refusal, refusal])) == []


def test_only_prompts_that_the_base_answers_with_text_count(answer: Any) -> None:
    loop = Flaw.DEGENERATE
    record = answer([loop, loop, None, None, Flaw.REFUSAL], [loop, loop, loop, None, None])
    assert failures(record) == []
    assert (reading(record, "answers", "asked"), reading(record, "answers", "broken")) == (3, 1)
    assert failures(answer([loop, loop, None, None, None], [None, None, loop, loop, loop])) == ["answers"]


@pytest.mark.parametrize("base", [[Flaw.EMPTY] * 4, [Flaw.DEGENERATE, Flaw.EMPTY, None, None]])
def test_where_the_base_itself_gives_little_text_the_answers_tell_nothing(answer: Any, base: Any) -> None:
    record = answer(base, [Flaw.EMPTY] * 4)
    assert failures(record) == []
    assert outcomes(record)["answers"] is CheckOutcome.SKIPPED


# --- what the variant is not to blame for ----------------------------------------------------------------------


@pytest.mark.parametrize(("flaw", "found"), [(None, ["weights"]), (Flaw.EMPTY, ["weights", "answers"])])
def test_a_base_that_could_not_be_read_is_not_compared_and_the_rest_is_checked(
    flaw: Flaw | None, found: list[str], artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(artifact, lambda tensors: tensors[DOWN].zero_())
    monkeypatch.setattr(smoke_reading, "answers", lambda session, prompts: [Answer(text="", flaw=flaw)] * 3)
    records.save(store.REFERENCE_RECORD, Reference(reason="killed", artifact_sha256="a" * 64))
    store.REFERENCE_LOGITS.unlink()
    record = smoke.run(smoke_job())
    assert failures(record) == found
    [compared] = [check for check in record.checks if check.name == "distributions"]
    assert compared.outcome is CheckOutcome.SKIPPED
    assert compared.words == "not compared, since the base could not be read: killed"


@pytest.mark.parametrize("error", [MemoryError, ImportError, UserError])
@pytest.mark.parametrize(("place", "name"), [(engine, "load"), (smoke_reading, "answers")])
def test_what_says_nothing_about_the_artifact_goes_on_to_the_worker(
    error: type[Exception], place: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise error("not the artifact's fault")

    monkeypatch.setattr(place, name, fails)
    with pytest.raises(error):
        smoke.run(smoke_job())


def test_a_model_that_fails_at_its_work_is_named_by_the_check_that_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(smoke_reading, "answers", fails)
    record = smoke.run(smoke_job())
    assert failures(record) == ["answers"]
    assert record.reason == "answers: RuntimeError: shapes cannot be multiplied"


def test_misplaced_parameters_are_named_and_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.TransformersSession, "misplaced", lambda self: [DOWN])
    record = smoke.run(smoke_job())
    assert failures(record) == ["device"]
    assert record.reason == f"1 parameters are not on cpu: {DOWN}"
    assert "distributions" not in outcomes(record)


def test_an_engine_that_cannot_look_at_its_weights_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.TransformersSession, "broken_weights", lambda self: None)
    record = smoke.run(smoke_job())
    assert failures(record) == []
    assert outcomes(record)["weights"] is CheckOutcome.SKIPPED
