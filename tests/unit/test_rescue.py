from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from synthetic import variant_decision
from unit.metrics.test_keeping import group

from pipeline import checkpoint, params, processes, records, rescue, store, supervise
from pipeline.artifact_records import BaseModelInfo, Manifest
from pipeline.errors import UserError
from pipeline.quality_records import FidelityText
from pipeline.records import GateVerdict, Status, VariantDecision, Verdict
from pipeline.sensitivity_records import Group, Proposal, Sensitivity

MIB = 2**20
DOWN = [f"model.layers.{layer}.mlp.down_proj" for layer in (0, 1)]
INT4 = {"quantizer": "rtn", "engine": "transformers", "settings": {"bits": 4, "group_size": 64}}
HASH = "a" * 64


@pytest.fixture
def raw(raw_params: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A project folder with params.yaml; `int4` is the variant to rescue."""
    monkeypatch.chdir(tmp_path)
    raw_params["variants"]["int4"] = INT4
    raw_params["variants"]["gguf"] = {"quantizer": "llama_cpp_gguf", "engine": "llama_cpp"}
    store.write_text(store.PARAMS, f"# ours\n{yaml.safe_dump(raw_params, sort_keys=False)}")
    return raw_params


def manifest(folder: Path, size: int = 8) -> Manifest:
    """Write a checkpoint of one tensor of `size` bytes for each `DOWN`, and its manifest."""
    import numpy
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    store.write_json(folder / "config.json", {"max_position_embeddings": 512, "model_type": "llama"})
    shaped = {f"{name}.weight": numpy.zeros((1, size // 2), dtype=numpy.float16) for name in DOWN}
    save_file(shaped, folder / "model.safetensors")
    base = BaseModelInfo(name="b", source="s", revision="r", licence="l", provenance="p")
    return checkpoint.write_manifest(
        folder,
        name=folder.name,
        base=base,
        quantizer=None,
        settings={},
        packages={},
        format="safetensors",
        parameters=100,
        quantized_modules=DOWN,
    )


@pytest.fixture
def made(raw: dict[str, Any]) -> None:
    """Base, artifacts and prompts."""
    for folder, size in ((store.BASE, 256), (store.artifact("fp16"), 256), (store.artifact("int4"), 64)):
        manifest(folder, size)
    text = FidelityText(
        tokenizer_sha256=HASH, text="t", tokens=4, window_tokens=4, windows=[[1, 2, 3, 4]], text_sha256=HASH
    )
    records.save(store.FIDELITY_PROMPT, text)


def problems(check: Callable[[], object]) -> tuple[str, ...]:
    with pytest.raises(UserError) as caught:
        check()
    return caught.value.problems


# --- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("made")
def test_a_variant_whose_entry_and_artifacts_are_there_may_be_rescued(raw: dict[str, Any]) -> None:
    rescue.require_entry(params.load(), "int4")


def test_an_unknown_variant_and_the_baseline_are_refused(raw: dict[str, Any]) -> None:
    settings = params.load()
    unknown = "no variant 'int4-gtpq' in params.yaml; did you mean 'int4'?"
    assert problems(lambda: rescue.require_entry(settings, "int4-gtpq")) == (unknown,)
    [words] = problems(lambda: rescue.require_entry(settings, "fp16"))
    assert words == "fp16 is the baseline, to which the others are compared; name one of those"


@pytest.mark.usefixtures("made")
def test_a_quantizer_that_cannot_leave_layers_and_an_entry_that_is_there_are_both_told(raw: dict[str, Any]) -> None:
    raw["variants"]["gguf-rescued"] = raw["variants"]["fp16"]
    manifest(store.artifact("gguf"))
    cannot, exists = problems(lambda: rescue.require_entry(params.parse(raw), "gguf"))
    assert cannot.startswith("gguf: llama_cpp_gguf has no setting skip_modules, so it cannot leave single layers")
    able = cannot.partition("quantizers that can: ")[2].split(", ")
    assert {"gptqmodel_gptq", "gptqmodel_awq", "rtn"} <= set(able)
    assert not {"llama_cpp_gguf", "fp16", "autoawq"} & set(able)
    assert exists.startswith("params.yaml has a variant 'gguf-rescued' already")


def test_every_missing_artifact_is_named(raw: dict[str, Any]) -> None:
    manifest(store.artifact("fp16"))
    [words] = problems(lambda: rescue.require_entry(params.load(), "int4"))
    assert words == (
        "missing: artifacts/base, artifacts/variants/int4, artifacts/prompts/fidelity.json. Run `dvc repro` first"
    )


def decided(verdict: Verdict, *gates: tuple[str, Verdict, float | None]) -> VariantDecision:
    judged = [
        GateVerdict(gate=metric, metric=metric, verdict=own, value=value, bound=0.0, reason="r")
        for metric, own, value in gates
    ]
    return variant_decision("int4", verdict, judged, why="gate size FAIL: too large")


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.UNDECIDED])
@pytest.mark.parametrize("metric", ["quality", "quality_delta", "kld_mean", "critical_regressions", "delta_ci_low"])
def test_one_that_fails_or_is_undecided_on_quality_may_be_rescued(metric: str, verdict: Verdict) -> None:
    rescue.require_need(decided(verdict, ("weight_bytes", Verdict.FAIL, 1.0), (metric, verdict, -0.1)))


def test_one_that_passes_is_refused() -> None:
    [words] = problems(lambda: rescue.require_need(decided(Verdict.PASS, ("quality", Verdict.PASS, 0.9))))
    assert words == "int4 passes every gate; there is nothing to rescue"


@pytest.mark.parametrize(
    "gate",
    [
        ("weight_bytes", Verdict.FAIL, 9.0),
        ("ttft_s_p95", Verdict.UNDECIDED, 1.0),
    ],
    ids=["size", "speed"],
)
def test_what_more_bits_do_not_mend_is_refused(gate: tuple[str, Verdict, float | None]) -> None:
    [words] = problems(lambda: rescue.require_need(decided(gate[1], ("quality", Verdict.PASS, 0.9), gate)))
    assert words == "int4 is held up by what more bits in some layers do not mend: gate size FAIL: too large"


def test_one_that_failed_altogether_is_refused() -> None:
    failed = decided(Verdict.FAIL, ("quality", Verdict.FAIL, 0.1))
    failed = failed.model_copy(update={"status": Status.INVALID, "why": "invalid: collapsed"})
    [words] = problems(lambda: rescue.require_need(failed))
    assert words == "int4 invalid: collapsed; mend that first, then `quantgate retry int4`"


# --- the budget ------------------------------------------------------------------------------------------------


def test_the_budget_is_a_tenth_of_what_was_saved_or_what_is_asked_for(tmp_path: Path) -> None:
    base, small = (manifest(tmp_path / name).model_copy(update={"name": name}) for name in ("fp16", "int4"))
    base = base.model_copy(update={"weight_bytes": 300 * MIB})
    small = small.model_copy(update={"weight_bytes": 100 * MIB})
    assert rescue.budget_bytes(small, base) == 20 * MIB
    assert rescue.budget_bytes(small, base, extra_mib=1.5) == 1.5 * MIB
    assert rescue.budget_bytes(small, base, max_size_ratio=0.5) == 50 * MIB
    assert rescue.budget_bytes(small, base, extra_mib=float("inf")) > 10**18
    [both] = problems(lambda: rescue.budget_bytes(small, base, 1.0, 0.5))
    assert both == "--extra-mib and --max-size-ratio are two ways to say the same; give one of them"
    nothing = "nothing may be added: int4 takes 0.333 × the weight bytes of fp16 already; give a --max-size-ratio above"
    for given in ({"max_size_ratio": 0.3}, {"extra_mib": 0.0}, {"extra_mib": -1.0}, {"extra_mib": float("nan")}):
        [words] = problems(lambda given=given: rescue.budget_bytes(small, base, **given))
        assert words.startswith(nothing)


# --- measuring -------------------------------------------------------------------------------------------------


def proposal(kept: list[Group], groups: list[Group], budget: int = 100, **measured: Any) -> Proposal:
    artifacts = {
        "artifact_sha256": checkpoint.read_manifest(store.artifact("int4")).artifact_sha256,
        "base_artifact_sha256": checkpoint.read_manifest(store.BASE).artifact_sha256,
    }
    fields = {**artifacts, "text_sha256": HASH, "tokens": 512, "positions": 512, "kld": 0.3, "groups": groups}
    return Proposal(
        sensitivity=Sensitivity(**(fields | measured)),
        budget_bytes=budget,
        kept=kept,
        kld_kept=0.1,
        kld_none_kept=0.3,
    )


@dataclass
class Worker:
    """Stands in for the process that measures."""

    result: Any
    jobs: list[Any] = field(default_factory=list)

    def __call__(self, name: str, job: Any, **_: Any) -> Any:
        assert name == "sensitivity"
        self.jobs.append(job)
        return self.result if isinstance(self.result, supervise.Failure) else self.result.model_dump(mode="json")


@pytest.fixture
def worker(made: None, monkeypatch: pytest.MonkeyPatch) -> Worker:
    groups = [group(DOWN[0], 0.2, 50), group(DOWN[1], 0.1, 50)]
    standing_in = Worker(proposal(groups[:1], groups))
    monkeypatch.setattr(supervise, "run", standing_in)
    return standing_in


def test_layers_are_measured_once_and_chosen_anew_for_another_budget(worker: Worker) -> None:
    settings = params.load()
    assert rescue.propose(settings, "int4", 100, 512) == worker.result
    [job] = worker.jobs
    assert (job.variant, job.budget_bytes, job.tokens, job.known) == ("int4", 100, 512, None)
    assert rescue.propose(settings, "int4", 100, 512) == worker.result
    assert len(worker.jobs) == 1, "the same question again"
    rescue.propose(settings, "int4", 60, 512)
    assert worker.jobs[1].known == worker.result.sensitivity
    rescue.propose(settings, "int4", 100, 256)
    assert worker.jobs[2].known is None, "on another text"


@pytest.mark.parametrize("changed", ["artifact_sha256", "base_artifact_sha256", "text_sha256"])
def test_what_was_measured_on_something_else_is_not_taken(worker: Worker, changed: str) -> None:
    found = worker.result
    sensitivity = found.sensitivity.model_copy(update={changed: "b" * 64})
    worker.result = found.model_copy(update={"sensitivity": sensitivity})
    for _ in range(2):
        rescue.propose(params.load(), "int4", 100, 512)
    assert [job.known for job in worker.jobs] == [None, None]


def test_a_worker_that_died_is_told_with_its_reason(worker: Worker) -> None:
    worker.result = supervise.Failure("killed (log: x)", 1.0)
    [words] = problems(lambda: rescue.propose(params.load(), "int4", 100, 512))
    assert words == "int4: the layers could not be measured: killed (log: x)"


def test_weights_that_are_quantized_at_each_load_are_refused_before_measuring(worker: Worker) -> None:
    manifest(store.artifact("int4"), 256)
    [words] = problems(lambda: rescue.propose(params.load(), "int4", 100, 512))
    assert words.startswith("int4: its weights are stored in 16 bits and quantized at each load")
    assert worker.jobs == []


# --- the new variant -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("made")
def test_the_entry_is_the_old_one_with_the_kept_modules_left_out(raw: dict[str, Any]) -> None:
    kept = [group(DOWN[1], 0.2, 50)]
    found = rescue.entry(raw, "int4", proposal(kept, kept))
    assert found == {**INT4, "settings": {**INT4["settings"], "skip_modules": [DOWN[1]]}}  # type: ignore[dict-item]
    assert "skip_modules" not in INT4["settings"]


@pytest.mark.usefixtures("made")
def test_modules_that_were_left_out_before_stay_so_and_are_not_named_twice(raw: dict[str, Any]) -> None:
    raw["variants"]["int4"] = {**INT4, "settings": {"skip_modules": [DOWN[0]]}}
    kept = [Group(modules=DOWN[::-1], kld=0.2, extra_bytes=50)]
    words = problems(lambda: rescue.entry(raw, "int4", proposal(kept, kept)))
    assert words[0].startswith("int4-rescued: settings.skip_modules: nothing is left to quantize")
    kept = [group(DOWN[0], 0.2, 50)]
    assert rescue.entry(raw, "int4", proposal(kept, kept))["settings"] == {"skip_modules": [DOWN[0]]}


@pytest.mark.usefixtures("made")
def test_a_budget_that_is_too_small_is_told_with_what_the_worst_part_takes(raw: dict[str, Any]) -> None:
    groups = [group(DOWN[0], 0.2, 3 * MIB), group(DOWN[1], 0.1, 2 * MIB)]
    [words] = problems(lambda: rescue.entry(raw, "int4", proposal([], groups, MIB)))
    assert words == (
        f"int4: no part of the model fits into 1.0 MiB; the one that loses most, {DOWN[0]}, takes 3.0 MiB more in "
        "16 bits"
    )


def test_applying_writes_the_variant_and_keeps_the_rest(raw: dict[str, Any]) -> None:
    before = store.PARAMS.read_text()
    wanted = {**INT4, "settings": {"skip_modules": DOWN}}
    rescue.apply("int4", wanted)
    text = store.PARAMS.read_text()
    assert text.startswith("# ours\n")
    assert params.load().variants["int4-rescued"].settings == {"skip_modules": DOWN}
    names = list(params.load().variants)
    assert names.index("int4-rescued") == names.index("int4") + 1
    start = text.index("  int4-rescued:")
    end = text.index("  gguf:")
    assert text[:start] + text[end:] == before


def test_a_file_that_would_be_wrong_is_not_written(raw: dict[str, Any]) -> None:
    before = store.PARAMS.read_text()
    with pytest.raises(UserError, match=r"variants\.int4-rescued\.settings\.bits: must be 2, 3, 4 or 8, got 5"):
        rescue.apply("int4", {**INT4, "settings": {"bits": 5}})
    assert store.PARAMS.read_text() == before


def test_reproducing_runs_all_that_is_not_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def run(command: list[str]) -> int:
        calls.append(command)
        return 7

    monkeypatch.setattr(processes, "run", run)
    assert rescue.reproduce() == 7
    assert [call[1:] for call in calls] == [["-m", "dvc", "repro"]]


@pytest.mark.parametrize(
    ("modules", "name"),
    [
        ([DOWN[0]], DOWN[0]),
        (
            ["model.layers.3.self_attn.q_proj", "model.layers.3.self_attn.k_proj"],
            "model.layers.3.self_attn: q_proj, k_proj",
        ),
        (
            ["model.layers.3.self_attn.q_proj", "model.layers.3.mlp.up_proj"],
            "model.layers.3: self_attn.q_proj, mlp.up_proj",
        ),
        (["a", "b"], "a, b"),
    ],
)
def test_a_part_is_named_by_what_its_modules_share(modules: list[str], name: str) -> None:
    assert rescue.group_name(modules) == name
