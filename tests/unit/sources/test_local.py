from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline import checkpoint
from pipeline.sources import local


def settings(path: Path) -> local.Settings:
    return local.Settings(path=str(path))


@pytest.fixture
def copied(tmp_path: Path, tiny_checkpoint: Path) -> Path:
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "model"))


def test_a_good_folder_has_no_problems(tiny_checkpoint: Path) -> None:
    assert local.problems(settings(tiny_checkpoint)) == []
    assert local.describe(settings(tiny_checkpoint)) == f"local:{tiny_checkpoint}"


def test_what_is_wrong_with_the_folder_is_told_with_the_key(copied: Path) -> None:
    assert local.problems(settings(copied / "none"))[0].startswith("model.source.path: ")
    (copied / "config.json").unlink()
    [problem] = local.problems(settings(copied))
    assert problem.startswith("model.source.path: ")
    assert "config.json: missing" in problem
    (copied / "model.safetensors").rename(copied / "pytorch_model.bin")
    [problem] = local.problems(settings(copied))
    assert "no .safetensors file (found pytorch_model.bin)" in problem


def test_the_revision_changes_with_a_byte_of_the_weights_only(copied: Path, tiny_checkpoint: Path) -> None:
    assert local.revision(settings(copied)) == local.revision(settings(tiny_checkpoint))
    (copied / "README.md").write_text("notes")
    assert local.revision(settings(copied)) == local.revision(settings(tiny_checkpoint))
    weights = copied / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert local.revision(settings(copied)) != local.revision(settings(tiny_checkpoint))


def test_a_float32_checkpoint_is_saved_as_float16_with_tokenizer_and_template(tmp_path: Path, copied: Path) -> None:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(copied, dtype=torch.float32).save_pretrained(copied)
    assert {tensor.dtype for tensor in load_file(copied / "model.safetensors").values()} == {torch.float32}
    out = tmp_path / "out"
    local.fetch(settings(copied), out)
    tensors = load_file(out / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert checkpoint.tensor_shapes(out) == checkpoint.tensor_shapes(copied)
    assert (out / "chat_template.jinja").read_bytes() == (copied / "chat_template.jinja").read_bytes()
    assert checkpoint.context_length(out) == 1024
    assert (out / "tokenizer.json").is_file()


def test_the_revision_changes_with_the_chat_template_and_the_config(copied: Path) -> None:
    before = local.revision(settings(copied))
    (copied / "chat_template.jinja").write_text("{{ messages }}")
    changed = local.revision(settings(copied))
    assert changed != before
    (copied / "config.json").write_text((copied / "config.json").read_text() + " ")
    assert local.revision(settings(copied)) != changed


def test_a_folder_without_chat_template_or_tokenizer_is_told(copied: Path) -> None:
    (copied / "chat_template.jinja").unlink()
    assert "has no chat template" in local.problems(settings(copied))[0]
    config = copied / "tokenizer_config.json"
    config.write_text(config.read_text().rstrip().removesuffix("}") + ', "chat_template": "x"}')
    assert local.problems(settings(copied)) == []
    (copied / "tokenizer.json").unlink()
    assert "holds no tokenizer.json" in local.problems(settings(copied))[0]


def test_a_broken_tokenizer_config_is_told(copied: Path) -> None:
    (copied / "tokenizer_config.json").write_text("{")
    [problem] = local.problems(settings(copied))
    assert "tokenizer_config.json: not JSON" in problem
