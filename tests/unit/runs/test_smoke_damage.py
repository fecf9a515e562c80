"""Damaged artifacts of a tiny model with the real engine: each kind of damage is caught and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from unit.runs.artifacts import DOWN, Tensors, change, edit_json, failures, reading, sign
from unit.runs.jobs import smoke_job

from pipeline import checkpoint, records, smoke_reading, store
from pipeline.runs import smoke
from pipeline.smoke_records import Reference

pytestmark = pytest.mark.usefixtures("artifact")


# --- damage on the disk ----------------------------------------------------------------------------------------


def test_bytes_that_flipped_on_the_disk_are_named_by_their_file(artifact: Path) -> None:
    path = artifact / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1000] ^= 0x01
    path.write_bytes(content)
    record = smoke.run(smoke_job())
    assert failures(record) == ["files"]
    assert record.reason == "damaged since the artifact was made: model.safetensors has other bytes than it had"


def test_a_truncated_file_is_named_with_both_sizes_and_that_it_does_not_load(artifact: Path) -> None:
    path = artifact / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    record = smoke.run(smoke_job())
    assert failures(record) == ["files", "load"]
    assert record.reason is not None
    assert f"model.safetensors has {len(whole) - 100} bytes instead of {len(whole)}" in record.reason
    assert "load: SafetensorError" in record.reason
    assert record.engine is None


def test_a_missing_file_is_named(artifact: Path) -> None:
    (artifact / "generation_config.json").unlink()
    record = smoke.run(smoke_job())
    assert failures(record) == ["files", "generation config"]
    assert "generation_config.json is missing" in (record.reason or "")


def test_a_file_that_came_since_is_named_as_engines_may_obey_it(artifact: Path) -> None:
    store.write_json(artifact / checkpoint.QUANTIZATION_AT_LOAD, {"quant_method": "bitsandbytes", "load_in_8bit": True})
    record = smoke.run(smoke_job())
    assert failures(record)[0] == "files"
    assert f"{checkpoint.QUANTIZATION_AT_LOAD} is not in the manifest" in (record.reason or "")


def test_a_manifest_that_lists_no_files_does_not_pass(artifact: Path) -> None:
    edit_json(artifact / store.MANIFEST, files={})
    record = smoke.run(smoke_job())
    assert failures(record) == ["files"]
    assert "model.safetensors is not in the manifest" in (record.reason or "")


# --- damage that was there when the manifest was written -------------------------------------------------------


def drop(*names: str) -> Callable[[Tensors], None]:
    def edit(tensors: Tensors) -> None:
        for name in names:
            del tensors[name]

    return edit


def test_a_tensor_that_is_missing_is_named_where_transformers_would_make_one_up(artifact: Path) -> None:
    change(artifact, drop(DOWN))
    record = smoke.run(smoke_job())
    assert failures(record) == ["load"]
    assert record.reason == f"load: ValueError: the checkpoint is not whole: missing keys {DOWN}"


def test_a_tensor_of_another_shape_is_named(artifact: Path) -> None:
    change(artifact, lambda tensors: tensors.update({DOWN: tensors[DOWN][:, :64].contiguous()}))
    record = smoke.run(smoke_job())
    assert record.reason == f"load: ValueError: the checkpoint is not whole: mismatched keys {DOWN}"


def test_the_first_of_many_missing_tensors_are_named_and_the_others_counted(artifact: Path) -> None:
    change(artifact, lambda tensors: drop(*[name for name in tensors if "_proj" in name])(tensors))
    assert (smoke.run(smoke_job()).reason or "").endswith(
        "model.layers.0.mlp.down_proj.weight, model.layers.0.mlp.gate_proj.weight, model.layers.0.mlp.up_proj.weight "
        "and 11 more"
    )


def test_a_tied_head_is_not_missing(artifact: Path) -> None:
    """The tiny model's checkpoint holds none, as its config ties it to the input embedding."""
    assert not any(name.startswith("lm_head") for name in checkpoint.tensor_shapes(artifact))
    assert failures(smoke.run(smoke_job())) == []


def test_a_zeroed_layer_is_named(artifact: Path) -> None:
    change(artifact, lambda tensors: tensors[DOWN].zero_())
    record = smoke.run(smoke_job())
    assert failures(record)[0] == "weights"
    words = f"1 weights are broken, the first of them {DOWN}, which holds nothing but zeros"
    assert (record.reason or "").startswith(words)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_one_weight_that_is_no_number_is_named(artifact: Path, value: float) -> None:
    def spoil(tensors: Tensors) -> None:
        tensors[DOWN][3, 5] = value

    change(artifact, spoil)
    record = smoke.run(smoke_job())
    assert failures(record) == ["weights", "distributions"]
    assert f"the first of them {DOWN}, which holds NaN or infinity" in (record.reason or "")
    positions = 4 * smoke_reading.SCORED
    assert f"logits are not finite numbers at {positions} of {positions} positions" in (record.reason or "")


def test_what_the_base_has_too_is_not_the_variants_fault(artifact: Path) -> None:
    change(artifact, lambda tensors: tensors[DOWN].zero_())
    base = records.load(store.REFERENCE_RECORD, Reference)
    records.save(store.REFERENCE_RECORD, base.model_copy(update={"broken_weights": {DOWN: "nothing but zeros"}}))
    assert "weights" not in failures(smoke.run(smoke_job()))


def test_weights_upside_down_have_collapsed_with_both_numbers_and_bounds(artifact: Path) -> None:
    """The likeliest token is now the least likely one, by finite weights that are all there."""
    change(artifact, lambda tensors: tensors["model.norm.weight"].neg_())
    record = smoke.run(smoke_job(kld_max=3.0, top1_min=0.2))
    assert "distributions" in failures(record)
    assert "collapsed: KLD " in (record.reason or "")
    assert " (at most 3), top-1 agreement " in (record.reason or "")
    assert " % (at least 20 %)" in (record.reason or "")
    assert reading(record, "distributions", "top1_agreement") < 0.2


def test_either_bound_alone_decides(artifact: Path) -> None:
    def blur(tensors: Tensors) -> None:
        import torch

        torch.manual_seed(0)
        for name, weight in tensors.items():
            if "_proj" in name:
                tensors[name] = weight + 0.01 * torch.randn_like(weight)

    change(artifact, blur)
    record = smoke.run(smoke_job(kld_max=100.0, top1_min=0.0))
    assert failures(record) == []
    kld, agreed = (reading(record, "distributions", name) for name in ("kld_mean", "top1_agreement"))
    assert kld > 0
    assert 0 < agreed < 1
    assert failures(smoke.run(smoke_job(kld_max=kld, top1_min=agreed))) == [], "the bounds themselves pass"
    assert failures(smoke.run(smoke_job(kld_max=0.99 * kld, top1_min=0.0))) == ["distributions"]
    assert failures(smoke.run(smoke_job(kld_max=100.0, top1_min=1.01 * agreed))) == ["distributions"]


# --- what must equal the base's --------------------------------------------------------------------------------


def test_another_chat_template_is_named(artifact: Path) -> None:
    (artifact / "chat_template.jinja").write_text("{{ messages }}")
    sign(artifact)
    record = smoke.run(smoke_job())
    assert failures(record) == ["chat template"]
    assert record.reason == "chat template differs from the base's: chat_template.jinja"


def test_another_end_token_is_named_with_both(artifact: Path) -> None:
    wanted = checkpoint.config(store.BASE)["eos_token_id"]
    edit_json(artifact / "config.json", eos_token_id=wanted + 1)
    sign(artifact)
    record = smoke.run(smoke_job())
    assert failures(record) == ["special tokens"]
    assert record.reason == f"config.json: eos_token_id is {wanted + 1}, the base's is {wanted}"


@pytest.mark.parametrize(
    ("file", "check"),
    [
        ("tokenizer.json", "tokenizer"),
        ("tokenizer_config.json", "tokenizer"),
        ("generation_config.json", "generation config"),
    ],
)
def test_a_file_that_a_library_rewrote_is_named(artifact: Path, file: str, check: str) -> None:
    (artifact / file).write_text((artifact / file).read_text() + "\n")
    sign(artifact)
    record = smoke.run(smoke_job())
    assert failures(record) == [check]
    assert file in (record.reason or "")


def test_a_file_that_the_base_does_not_have_is_named(artifact: Path) -> None:
    (artifact / "added_tokens.json").write_text("{}")
    sign(artifact)
    assert smoke.run(smoke_job()).reason == "tokenizer differs from the base's: added_tokens.json"


def test_every_check_that_fails_is_in_the_reason(artifact: Path) -> None:
    (artifact / "chat_template.jinja").write_text("{{ messages }}")
    change(artifact, lambda tensors: tensors[DOWN].zero_())
    found = failures(smoke.run(smoke_job()))
    assert found[:2] == ["chat template", "weights"]
