from __future__ import annotations

from pathlib import Path

import pytest
from unit.runs.jobs import base_job

from pipeline import checkpoint, store
from pipeline.errors import UserError
from pipeline.runs import base


@pytest.mark.usefixtures("project")
def test_the_base_is_a_complete_float16_checkpoint() -> None:
    import torch
    from safetensors.torch import load_file

    manifest = checkpoint.read_manifest(store.BASE)
    assert set(manifest.files) >= {"model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"}
    assert manifest.quantizer is None
    assert manifest.format == "safetensors"
    assert manifest.base.source == "local:model"
    assert (manifest.base.name, manifest.base.licence) == ("tiny", "Apache-2.0")
    assert manifest.chat_template_sha256 == store.sha256_file(Path("model/chat_template.jinja"))
    assert manifest.context_length == 1024
    tensors = load_file(store.BASE / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert manifest.parameters == sum(tensor.numel() for tensor in tensors.values())
    # Two bytes a weight, and a header.
    assert 16 < manifest.bits_per_weight < 16.2


@pytest.mark.usefixtures("project")
def test_making_the_base_again_gives_the_same_manifest_and_drops_strays() -> None:
    before = checkpoint.read_manifest(store.BASE)
    (store.BASE / "stray.txt").write_text("left by an earlier model")
    assert base.run(base_job()) == before
    assert not (store.BASE / "stray.txt").exists()


@pytest.mark.usefixtures("project")
def test_a_faulty_source_is_a_users_mistake_and_the_base_stays() -> None:
    before = checkpoint.read_manifest(store.BASE)
    with pytest.raises(UserError, match=r"model\.source\.path: elsewhere: no such folder"):
        base.run(base_job(source={"path": "elsewhere"}))
    assert checkpoint.read_manifest(store.BASE) == before


@pytest.mark.usefixtures("project")
def test_a_model_that_cannot_be_fetched_leaves_no_complete_base(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.sources import local

    def broken(settings: local.Settings, out: Path) -> None:
        (out / "model.safetensors").write_bytes(b"half")
        raise OSError(f"{settings.path}: disk full")

    monkeypatch.setattr(local, "fetch", broken)
    with pytest.raises(OSError, match="disk full"):
        base.run(base_job())
    assert not checkpoint.is_complete(store.BASE)
