from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from pipeline import checkpoint, fidelity_models, processes, progress, records, store
from pipeline.engines import transformers as engine
from pipeline.metrics import divergence
from pipeline.probes import device, hardware
from pipeline.quality_records import FidelityRecord, FidelityText
from pipeline.readings import FailureKind
from pipeline.records import EngineInfo, Status, known, missing
from pipeline.residents import Loaded, Message, Resident, TurnError
from pipeline.runs import fidelity

WINDOWS = [[1, 5, 7, 2, 9], [1, 3, 3, 8, 4], [1, 6]]
VOCABULARY = 12


def job(variant: str = "two", baseline: str = "one") -> fidelity.Job:
    return fidelity.Job(
        variant=variant,
        engine="transformers",
        python=processes.PYTHON,
        baseline=baseline,
        baseline_engine="transformers",
        baseline_python=processes.PYTHON,
        device="cpu",
        compute_dtype={"cpu": "float32", "cuda": "float16"},
        threads=2,
        timeout_s=120,
    )


def logits(name: str, window: list[int], vocabulary: int = VOCABULARY) -> numpy.ndarray:
    """Of the model of that name; the last ones, after the window's end, are of no use to anyone."""
    rng = numpy.random.default_rng([len(name), ord(name[0]), *window])
    found = rng.standard_normal((len(window), vocabulary)).astype(numpy.float32)
    found[-1] = numpy.nan
    return found


class FakeSession:
    def __init__(self, name: str, changes: Fakes) -> None:
        self._name = name
        self._changes = changes

    def misplaced(self) -> list[str]:
        return self._changes.misplaced.get(self._name, [])

    def info(self) -> EngineInfo:
        return EngineInfo(
            name="fake",
            packages={},
            device="cpu",
            device_name="CPU",
            compute_dtype="float32",
            threads=2,
            kernels={self._name: 1},
            attention="eager",
        )

    def next_token_logits(self, token_ids: list[int]) -> Any:
        self._changes.reading(self._name)
        return logits(self._name, token_ids, self._changes.vocabulary.get(self._name, VOCABULARY))


class Fakes:
    """An engine without models, on a device that holds `room` of them at once."""

    def __init__(self) -> None:
        self.loads: list[str] = []
        self.room = 2
        self.misplaced: dict[str, list[str]] = {}
        self.vocabulary: dict[str, int] = {}
        self.reading: Callable[[str], None] = lambda name: None
        self._alive: weakref.WeakSet[FakeSession] = weakref.WeakSet()

    def load(self, artifact: Path, _: Any) -> FakeSession:
        import torch

        if len(self._alive) == self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        session = FakeSession(artifact.name, self)
        self._alive.add(session)
        self.loads.append(artifact.name)
        return session


@pytest.fixture
def fakes(project: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """A project with two artifacts and three short windows of text."""
    shutil.copytree(store.artifact("one"), store.artifact("two"))
    manifest = checkpoint.read_manifest(store.artifact("two")).model_copy(update={"artifact_sha256": "2" * 64})
    records.save(store.artifact("two") / store.MANIFEST, manifest)
    write_text(WINDOWS)
    found = Fakes()
    monkeypatch.setattr(engine, "load", found.load)
    return found


def write_text(windows: list[list[int]], **changes: Any) -> None:
    written = records.load(store.FIDELITY_PROMPT, FidelityText)
    text = written.model_copy(update={"windows": windows, "text_sha256": store.sha256_json(windows)} | changes)
    records.save(store.FIDELITY_PROMPT, text)


def test_every_token_but_each_windows_first_is_scored(fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
    record = fidelity.run(job())
    expected = [divergence.compare(logits("one", w)[:-1], logits("two", w)[:-1], w[1:]) for w in WINDOWS]
    assert record.blocks == [block for found in expected for block in divergence.blocks(found)]
    assert [block.tokens for block in record.blocks] == [4, 4, 1]
    assert record.kld_max == max(found.kld.max() for found in expected)
    assert record.kld_p99 is None
    assert (record.status, record.variant) == (Status.OK, "two")
    assert (record.text, record.window_tokens) == ("corpus.txt", 32)
    assert record.text_sha256 == store.sha256_json(WINDOWS)
    assert record.artifact_sha256 == "2" * 64
    assert record.baseline_artifact_sha256 == checkpoint.read_manifest(store.artifact("one")).artifact_sha256
    assert record.engine is not None
    assert record.engine.kernels == {"two": 1}
    assert fakes.loads == ["one", "two"]
    assert FidelityRecord.model_validate_json(record.model_dump_json()) == record
    steps = [step for step in map(progress.parse, capsys.readouterr().out.splitlines()) if step]
    assert [(step.done, step.total) for step in steps] == [(1, 3), (2, 3), (3, 3)]


def test_the_99th_percentile_is_over_all_windows(fakes: Fakes) -> None:
    write_text([[1, *range(2, 12)]] * 12)
    record = fidelity.run(job())
    window = [1, *range(2, 12)]
    kld = divergence.compare(logits("one", window)[:-1], logits("two", window)[:-1], window[1:]).kld
    assert record.kld_p99 == pytest.approx(float(numpy.percentile(numpy.tile(kld, 12), 99)))


def test_the_baseline_is_compared_with_a_second_load_of_itself(fakes: Fakes) -> None:
    record = fidelity.run(job("one"))
    assert fakes.loads == ["one", "one"]
    assert record.kld_max == 0
    assert {(block.kld, block.agreed, block.nll) for block in record.blocks} == {
        (0, block.tokens, block.baseline_nll) for block in record.blocks
    }


@pytest.mark.parametrize("misplaced", ["one", "two"])
def test_misplaced_parameters_make_the_record_invalid(fakes: Fakes, misplaced: str) -> None:
    fakes.misplaced[misplaced] = ["a.weight"]
    record = fidelity.run(job())
    assert (record.status, record.reason) == (
        Status.INVALID,
        f"{misplaced}: 1 parameters are not on cpu: a.weight",
    )
    assert record.blocks == []


# --- memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host_bytes", "loads"),
    [
        (10**9, ["one", "two"]),
        # Logits of one window of 5 tokens are 240 bytes: one is always kept, and a second one up to that limit.
        (240, ["one", "two"] * 2),
        (0, ["one", "two"] * 3),
    ],
)
def test_models_that_do_not_fit_together_are_loaded_in_turns(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, host_bytes: int, loads: list[str]
) -> None:
    together = fidelity.run(job())
    fakes.loads.clear()
    fakes.room = 1
    monkeypatch.setattr(device, "free_bytes", lambda on: missing("the driver does not tell"))
    monkeypatch.setattr(hardware, "available_bytes", lambda: host_bytes / fidelity.HOST_SHARE)
    assert fidelity.run(job()) == together
    assert fakes.loads == ["one", *loads], "the first load was followed by one that found no room"


def test_memory_that_is_short_while_reading_is_freed_before_the_next_try(fakes: Fakes) -> None:
    import torch

    together = fidelity.run(job())
    fakes.loads.clear()

    def reading(name: str) -> None:
        if fakes.loads == ["one", "two"] and name == "two":
            raise torch.OutOfMemoryError("CUDA out of memory")

    fakes.reading = reading
    assert fidelity.run(job()) == together
    assert fakes.loads == ["one", "two", "one", "two"]


def test_models_that_are_known_not_to_fit_are_not_tried_together(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = fidelity.ROOM * 2 * checkpoint.read_manifest(store.artifact("one")).weight_bytes
    fakes.room = 1
    monkeypatch.setattr(device, "free_bytes", lambda on: known(needed - 1))
    fidelity.run(job())
    assert fakes.loads == ["one", "two"]
    fakes.loads.clear()
    monkeypatch.setattr(device, "free_bytes", lambda on: known(needed))
    fidelity.run(job())
    assert fakes.loads == ["one", "one", "two"]


def test_a_model_that_does_not_fit_alone_fails_with_what_to_do(fakes: Fakes) -> None:
    fakes.room = 0
    record = fidelity.run(job())
    assert record.status is Status.FAILED
    assert record.reason is not None
    assert record.reason.startswith("out of memory even with one model at a time (OutOfMemoryError: CUDA out of memory")
    assert record.reason.endswith("lower fidelity.window_tokens, which is 5 now")


def test_any_other_mistake_is_not_taken_for_want_of_memory(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    def reading(name: str) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    fakes.reading = reading
    with pytest.raises(RuntimeError, match="mat1"):
        fidelity.run(job())
    assert fakes.loads == ["one"]
    monkeypatch.setattr(device, "free_bytes", lambda on: known(0))
    with pytest.raises(RuntimeError, match="mat1"):
        fidelity.run(job())
    assert fakes.loads == ["one", "one"]


# --- vocabularies ----------------------------------------------------------------------------------------------


def test_rows_that_only_pad_the_output_are_told_in_the_log(fakes: Fakes, capsys: pytest.CaptureFixture[str]) -> None:
    fakes.vocabulary["two"] = VOCABULARY + 4
    record = fidelity.run(job())
    assert record.status is Status.OK
    words = "12 rows of output of the baseline, 16 of the variant: compared on those that both have"
    assert capsys.readouterr().out.count(words) == 1


def test_other_tokenizers_do_not_compare(fakes: Fakes) -> None:
    write_text(WINDOWS, tokenizer_sha256="f" * 64)
    record = fidelity.run(job())
    assert record.status is Status.FAILED
    assert "two, one and the text have different tokenizers" in str(record.reason)
    assert fakes.loads == []


# --- real models -----------------------------------------------------------------------------------------------


def perturb(artifact: Path) -> None:
    """Move every weight a little, as a quantizer would."""
    import torch
    from safetensors.torch import load_file, save_file

    path = artifact / "model.safetensors"
    torch.manual_seed(0)
    tensors = {name: tensor + 0.01 * torch.randn_like(tensor) for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})


def own_figures(windows: list[list[int]]) -> tuple[float, float, float]:
    """Perplexity ratio, mean KL divergence and agreement in plain torch, without any of our code."""
    import torch
    from transformers import AutoModelForCausalLM

    models = [
        AutoModelForCausalLM.from_pretrained(store.artifact(name), dtype=torch.float32) for name in ("one", "two")
    ]
    losses, klds, agreed = [], [], []
    for window in windows:
        with torch.inference_mode():
            log_p, log_q = (
                torch.log_softmax(model(torch.tensor([window])).logits[0, :-1].double(), dim=-1) for model in models
            )
        places = torch.arange(len(window) - 1)
        losses.append((log_p - log_q)[places, torch.tensor(window[1:])])
        klds.append((log_p.exp() * (log_p - log_q)).sum(-1))
        agreed.append(log_p.argmax(-1) == log_q.argmax(-1))
    return (
        float(torch.cat(losses).mean().exp()),
        float(torch.cat(klds).mean()),
        float(torch.cat(agreed).double().mean()),
    )


@pytest.mark.usefixtures("project")
def test_real_models_agree_with_an_independent_computation() -> None:
    from pipeline.metrics.fidelity import summarize

    shutil.copytree(store.artifact("one"), store.artifact("two"))
    perturb(store.artifact("two"))
    windows = records.load(store.FIDELITY_PROMPT, FidelityText).windows
    assert [len(window) for window in windows] == [32, 32, 32]
    record = fidelity.run(job())
    found = summarize(record, 0)
    assert found.tokens == 93
    figures = (found.ppl_ratio.value.value, found.kld_mean.value.value, found.top1_agreement.value.value)
    assert figures == pytest.approx(own_figures(windows), rel=1e-4)
    assert found.kld_mean.value.value is not None
    assert found.kld_mean.value.value > 1e-4


@pytest.mark.usefixtures("project")
def test_a_real_model_is_the_same_as_itself_exactly() -> None:
    record = fidelity.run(job("one"))
    assert record.kld_max == 0
    assert all((block.kld, block.agreed, block.nll) == (0, block.tokens, block.baseline_nll) for block in record.blocks)


# --- engines of other environments -----------------------------------------------------------------------------


def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Resident, Path]]:
    """Notes the worker processes of models, and takes the engine for one of a toolchain."""
    noted: list[tuple[Resident, Path]] = []

    def start(environment: dict[str, str], python: Path) -> Resident:
        resident = Resident(environment, python)
        noted.append((resident, python))
        return resident

    monkeypatch.setattr(engine, "TOOLCHAIN", "apart@0123456789ab")
    monkeypatch.setattr(fidelity_models, "Resident", start)
    return noted


def is_gone(resident: Resident) -> bool:
    return not Path(f"/proc/{resident.pid}").exists()


@pytest.mark.usefixtures("project")
def test_a_model_whose_engine_has_a_toolchain_reads_the_same_in_a_process_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(store.artifact("one"), store.artifact("two"))
    perturb(store.artifact("two"))
    here = fidelity.run(job())
    noted = started(monkeypatch)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    apart = fidelity.run(job())
    assert apart.status is Status.OK
    assert [python for _, python in noted] == [processes.PYTHON] * 2
    assert all(is_gone(resident) for resident, _ in noted)
    assert list(scratch.iterdir()) == []
    assert apart == here


def asked(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> None:
    """Let worker processes answer so, by the kind of message."""

    def ask(self: Resident, message: Message, expected: type[Any], timeout_s: float) -> Any:
        answer = answers[getattr(message, "kind", "")]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Resident, "ask", ask)


LOADED = Loaded(engine=FakeSession("x", Fakes()).info(), load_s=1, misplaced=[], decode_weight_bytes=1)


def test_what_goes_wrong_in_such_a_process_ends_as_it_would_here(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = started(monkeypatch)
    asked(monkeypatch, {"load": LOADED.model_copy(update={"misplaced": ["a.weight"]})})
    record = fidelity.run(job())
    assert (record.status, record.reason) == (Status.INVALID, "one: 1 parameters are not on cpu: a.weight")
    for answers in (
        {"load": TurnError(FailureKind.OUT_OF_MEMORY, "no room")},
        {"load": LOADED, "logits": TurnError(FailureKind.OUT_OF_MEMORY, "no room")},
    ):
        asked(monkeypatch, answers)
        record = fidelity.run(job())
        assert record.status is Status.FAILED
        assert str(record.reason).startswith("out of memory even with one model at a time (MemoryError: no room)")
    asked(monkeypatch, {"load": LOADED, "logits": TurnError(FailureKind.WORKER_DIED, "killed by SIGSEGV")})
    with pytest.raises(TurnError, match="SIGSEGV"):
        fidelity.run(job())
    assert len(noted) == 6
    assert all(is_gone(resident) for resident, _ in noted)
