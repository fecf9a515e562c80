from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.runs.jobs import quantize_job

from pipeline import checkpoint, store
from pipeline.artifact_records import Attempt
from pipeline.errors import UserError
from pipeline.quantizers import Quantized, QuantizeJob, fp16, gptqmodel_gptq
from pipeline.records import Status
from pipeline.runs import quantize

CALIBRATION = {"set": "plain", "samples": 3, "max_tokens": 40}
UP, DOWN = "model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj"
TRIES = [
    Attempt(settings={"module": DOWN, "damp_percent": 0.05}, failure="not positive-definite"),
    Attempt(settings={"module": DOWN, "damp_percent": 0.1}, failure=None),
]


@pytest.fixture
def out(project: Path) -> Path:
    """An empty folder for the artifact, as the stage leaves it."""
    folder = project / store.artifact("two")
    folder.mkdir()
    return folder


def job(quantizer: str = "fp16", **settings: Any) -> quantize.Job:
    return quantize_job(quantizer, **settings).model_copy(update={"variant": "two"})


def test_fp16_is_the_base_byte_for_byte(out: Path) -> None:
    record = quantize.run(job())
    base, made = checkpoint.read_manifest(store.BASE), checkpoint.read_manifest(out)
    assert made.files == base.files
    assert made.artifact_sha256 == base.artifact_sha256 == record.artifact_sha256
    assert (made.name, made.quantizer, made.quantized_modules) == ("two", "fp16", [])
    assert made.base == base.base
    assert record.status is Status.OK
    assert record.weight_bytes == made.weight_bytes == base.weight_bytes
    assert record.bits_per_weight == made.bits_per_weight
    assert record.wall_s > 0
    assert record.peak_process_bytes.value
    assert record.base == base.base
    assert record.tokenizer_sha256 == base.tokenizer_sha256
    assert record.chat_template_sha256 == base.chat_template_sha256


@pytest.mark.usefixtures("out")
def test_a_group_size_that_does_not_fit_is_told_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: QuantizeJob) -> Quantized:
        raise AssertionError("began to work")

    monkeypatch.setattr(gptqmodel_gptq, "quantize", never)
    with pytest.raises(UserError) as caught:
        quantize.run(job("gptqmodel_gptq", group_size=512, calibration=CALIBRATION))
    [problem] = caught.value.problems
    assert problem.startswith("variants.two.settings.group_size 512 does not divide every layer: ")
    assert "model.layers.0.mlp.down_proj has 256 input features" in problem
    assert problem.endswith("Sizes that would do: -1, 16, 32, 64, 128")


@pytest.mark.usefixtures("out")
def test_too_small_a_calibration_set_is_told_before_any_work() -> None:
    with pytest.raises(UserError, match="'plain': 9 samples asked for, but only 4"):
        quantize.run(job("gptqmodel_gptq", calibration=CALIBRATION | {"samples": 9}))


def test_the_quantizer_gets_the_tokens_and_its_work_is_completed_and_recorded(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[QuantizeJob] = []

    def fake(given: QuantizeJob) -> Quantized:
        seen.append(given)
        fp16.quantize(given)
        assert not checkpoint.is_complete(given.out)  # the base's manifest must not come along
        # Libraries rewrite these on saving.
        (given.out / "chat_template.jinja").write_text("rewritten")
        (given.out / "tokenizer.json").write_text("{}")
        (given.out / "generation_config.json").write_text("{}")
        (given.out / "added_tokens.json").write_text("{}")
        return Quantized([UP, DOWN], attempts=TRIES)

    monkeypatch.setattr(gptqmodel_gptq, "quantize", fake)
    record = quantize.run(job("gptqmodel_gptq", group_size=64, calibration=CALIBRATION))
    [given] = seen
    assert [len(ids) for ids in given.calibration] == [40, 40, 40]
    assert (given.device, given.compute_dtype, given.seed) == ("cpu", "float32", 0)
    assert given.settings.group_size == 64
    for name in ("chat_template.jinja", "tokenizer.json", "generation_config.json"):
        assert (out / name).read_bytes() == (store.BASE / name).read_bytes()
    assert not (out / "added_tokens.json").exists()
    manifest = checkpoint.read_manifest(out)
    assert manifest.quantized_modules == record.quantized_modules == [DOWN, UP]
    assert manifest.attempts == record.attempts == TRIES
    # Seven layers in each of two blocks, and no lm_head of its own: the tiny model ties it.
    assert manifest.unquantized_modules == record.unquantized_modules
    assert len(manifest.unquantized_modules) == 12
    assert "model.layers.1.mlp.up_proj" in manifest.unquantized_modules
    assert not {UP, DOWN, "lm_head"} & set(manifest.unquantized_modules)
    assert manifest.bits_per_weight == record.bits_per_weight == 8 * manifest.weight_bytes / manifest.parameters
    assert manifest.format == "gptq"
    assert manifest.settings["calibration"] == {"set": "plain", "samples": 3, "max_tokens": 40, "seed": 0}
    assert manifest.settings["damp_percent"] == 0.05  # defaults stand in the manifest too
    assert manifest.parameters == checkpoint.read_manifest(store.BASE).parameters
    assert record.calibration is not None
    assert record.calibration == manifest.calibration
    assert record.calibration.sha256 == store.sha256_json([list(ids) for ids in given.calibration])
    assert (record.peak_gpu_bytes.value, record.peak_gpu_bytes.reason) == (None, "the model runs on the CPU")
    assert (record.calibration.samples_total, record.calibration.samples_kept, record.calibration.tokens) == (4, 3, 120)


def test_a_quantizer_that_fails_leaves_no_complete_artifact(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(given: QuantizeJob) -> Quantized:
        (given.out / "model.safetensors").write_bytes(b"half")
        raise RuntimeError("not positive-definite")

    monkeypatch.setattr(fp16, "quantize", failing)
    with pytest.raises(RuntimeError, match="positive-definite"):
        quantize.run(job())
    assert not checkpoint.is_complete(out)


def test_an_lm_head_of_its_own_counts_among_the_layers_left(out: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tensors = load_file(store.BASE / "model.safetensors")
    save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]}, store.BASE / "model.safetensors")
    config = store.read_json(store.BASE / "config.json")
    store.write_json(store.BASE / "config.json", {**config, "tie_word_embeddings": False})
    record = quantize.run(job())
    assert len(record.unquantized_modules) == 15
    assert record.unquantized_modules[0] == "lm_head"
