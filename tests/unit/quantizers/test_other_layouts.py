"""Models whose blocks have other names and layers of other classes than Llama's, with the real libraries."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline import checkpoint, model_shape, plugins
from pipeline.quantizers import Quantized, QuantizeJob

SPECIAL = {"vocab_size": 512, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}


def gpt2() -> Any:
    """Matrices that lie [inputs, outputs]."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(**SPECIAL, n_embd=128, n_layer=2, n_head=4, n_positions=512))


def falcon() -> Any:
    """Linear layers of a class of their own."""
    from transformers import FalconConfig, FalconForCausalLM

    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "multi_query": False}
    return FalconForCausalLM(FalconConfig(**SPECIAL, **sizes))


@pytest.fixture
def quantized(tiny_checkpoint: Path, tmp_path: Path) -> Callable[..., tuple[Path, Quantized]]:
    """Quantize such a model; gives its checkpoint and what was done."""

    def make(build: Callable[[], Any], quantizer: str) -> tuple[Path, Quantized]:
        module = plugins.load("pipeline.quantizers", quantizer)
        if set(module.PACKAGES) - set(checkpoint.package_versions(module.PACKAGES)):
            pytest.skip(f"{quantizer}: a package is not installed")
        ignore = shutil.ignore_patterns("config.json", "model.safetensors")
        base = Path(shutil.copytree(tiny_checkpoint, tmp_path / "base", ignore=ignore))
        torch.manual_seed(0)
        build().to(torch.float16).save_pretrained(base)
        settings = module.Settings()
        assert module.check(settings, model_shape.read(base)) == []
        out = tmp_path / "out"
        out.mkdir()
        return base, module.quantize(QuantizeJob(base, out, settings, [], "cpu", "bfloat16", 0))

    return make


def test_every_layer_that_is_found_in_the_checkpoint_is_quantized(
    quantized: Callable[..., tuple[Path, Quantized]],
) -> None:
    base, done = quantized(gpt2, "bitsandbytes_int8")
    linears = checkpoint.linears(base)
    assert len(linears) == 8
    assert set(done.modules) == {layer.name for layer in linears}
    assert {(layer.in_features, layer.out_features) for layer in linears if "mlp.c_fc" in layer.name} == {(128, 512)}


@pytest.mark.parametrize(
    ("build", "quantizer"), [(falcon, "bitsandbytes_int8"), (falcon, "bitsandbytes_nf4"), (gpt2, "torchao_int8")]
)
def test_a_library_that_does_not_know_the_layers_does_not_pass_the_base_off_as_quantized(
    quantized: Callable[..., tuple[Path, Quantized]], build: Callable[[], Any], quantizer: str
) -> None:
    with pytest.raises(RuntimeError, match="quantized no layer of this model: it does not know the class of its"):
        quantized(build, quantizer)
