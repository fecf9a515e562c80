"""What NF4 does where bitsandbytes saves something else than it has in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from unit.quantizers.made import PROMPT, Made, Make, divergence

from pipeline import checkpoint, store

bitsandbytes = pytest.importorskip("bitsandbytes")
PLAIN = {"double_quantization": False}
"""The scales that bitsandbytes 0.50.2 mixes up are those not quantized themselves."""
Save = Callable[..., None]


@pytest.fixture
def around_saving(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], None], Callable[[Path], None]], None]:
    """Have something done to each model just before it is saved, and to the folder just after."""

    def install(before: Callable[[Any], None], after: Callable[[Path], None]) -> None:
        from transformers import PreTrainedModel

        save: Save = PreTrainedModel.save_pretrained

        def saving(model: Any, folder: Path, *args: Any, **options: Any) -> None:
            before(model)
            save(model, folder, *args, **options)
            after(Path(folder))

        monkeypatch.setattr(PreTrainedModel, "save_pretrained", saving)

    return install


def nothing(_: Any) -> None:
    pass


def a_pass(model: Any) -> None:
    with torch.inference_mode():
        model(input_ids=torch.tensor([PROMPT]))


def spoil(folder: Path) -> None:
    """Swap the scales of one layer's blocks."""
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = "model.layers.1.mlp.up_proj.weight.absmax"
    tensors[name] = tensors[name].flip(0).contiguous()
    save_file(tensors, path, {"format": "pt"})


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def base_tensors(base: Path, made: Made) -> dict[str, Any]:
    return Made(base, made.done).tensors()


def test_unquantized_weights_are_stored_on_demand_and_quantized_as_they_are_loaded(make: Make, base: Path) -> None:
    packed, made = make("bitsandbytes_nf4"), make("bitsandbytes_nf4", store="at_load")
    assert made.done.at_load == "asked for by settings.store"
    assert made.done.modules == packed.done.modules
    before, after = base_tensors(base, made), made.tensors()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    declared = store.read_json(made.folder / checkpoint.QUANTIZATION_AT_LOAD)
    assert (declared["quant_method"], declared["bnb_4bit_quant_type"]) == ("bitsandbytes", "nf4")
    ours, theirs = made.session("float16"), packed.session("float16")
    assert ours.info().kernels == theirs.info().kernels == {"Linear4bit": 14}
    assert ours.info().fallback_kernels == theirs.info().fallback_kernels
    assert (ours.next_token_logits(PROMPT) == theirs.next_token_logits(PROMPT)).all()
    assert ours.weight_bytes() == theirs.weight_bytes()
    assert ours.decode_weight_bytes() == theirs.decode_weight_bytes()
    on_disk = sum(path.stat().st_size for path in made.folder.glob("*.safetensors"))
    assert ours.weight_bytes() < on_disk / 2


@pytest.mark.skipif(not bitsandbytes.functional.has_avx512bf16(), reason="only such CPUs repack at the first pass")
def test_the_fault_in_saving_after_a_pass_is_still_there_and_is_caught(
    make: Make, around_saving: Any, base: Path
) -> None:
    """Where this fails because nothing differs, bitsandbytes has mended it: mend the words of the quantizer too."""
    good = make("bitsandbytes_nf4", **PLAIN)
    around_saving(a_pass, nothing)
    made = make("bitsandbytes_nf4", **PLAIN)
    assert made.done.at_load is not None
    assert "load as others than those in memory" in made.done.at_load
    assert divergence(
        good.session("float16").next_token_logits(PROMPT), made.session("float16").next_token_logits(PROMPT)
    ) == pytest.approx(0, abs=1e-6)


def test_auto_stores_unquantized_weights_where_the_saved_ones_differ(
    make: Make, around_saving: Any, base: Path
) -> None:
    around_saving(nothing, spoil)
    made = make("bitsandbytes_nf4", **PLAIN)
    assert made.done.at_load is not None
    assert "(model.layers.1.mlp.up_proj)" in made.done.at_load
    assert "(limit 0.01)" in made.done.at_load
    packed, at_load = made.done.attempts
    assert (packed.settings, packed.failure) == ({"store": "packed"}, made.done.at_load)
    assert (at_load.settings, at_load.failure) == ({"store": "at_load"}, None)
    assert made.tensors().keys() == base_tensors(base, made).keys()
    assert made.session().info().kernels == {"Linear4bit": 14}


def test_auto_stores_unquantized_weights_where_the_saved_ones_do_not_load(make: Make, around_saving: Any) -> None:
    around_saving(nothing, cut)
    made = make("bitsandbytes_nf4")
    assert made.done.at_load is not None
    assert made.done.at_load.startswith("the saved weights do not load: ")
    assert made.session().info().kernels == {"Linear4bit": 14}


def test_packed_weights_that_load_as_others_are_a_failure_with_numbers(make: Make, around_saving: Any) -> None:
    around_saving(nothing, spoil)
    with pytest.raises(RuntimeError, match=r"weights differ by up to 0\.\d+ .*settings.store: auto or at_load"):
        make("bitsandbytes_nf4", **PLAIN, store="packed")


def test_good_packed_weights_are_kept_packed(make: Make) -> None:
    made = make("bitsandbytes_nf4", store="packed")
    assert made.done.at_load is None
    assert not (made.folder / checkpoint.QUANTIZATION_AT_LOAD).exists()
    assert made.hashes() == make("bitsandbytes_nf4").hashes()
