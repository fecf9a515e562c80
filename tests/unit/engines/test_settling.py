"""A loaded session is settled: what kernels do once, at their first pass, was done in loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from unit.engines.prompts import PROMPT

from pipeline.engines import EngineOptions
from pipeline.engines import transformers as engine
from pipeline.engines.transformers import TransformersSession

PACKED_BYTES = 4096
DECIDES: dict[str, str] = {}
"""What the first pass of the layer under test decides for."""


class TorchAtenLinear(torch.nn.Linear):
    """Like gptqmodel's class of this name: packs its weights at the first pass, and settles there how to multiply."""

    linear_mode: str | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.linear_mode is None:
            self.linear_mode = DECIDES["mode"]
            self.packed = torch.nn.Module()
            self.packed.register_buffer("weight", torch.zeros(PACKED_BYTES, dtype=torch.uint8))
        return super().forward(x)


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "inference") -> TransformersSession:
    """A session of which one layer changes at its first pass."""
    from transformers import AutoModelForCausalLM

    from_pretrained = AutoModelForCausalLM.from_pretrained

    def lazy(*args: Any, **options: Any) -> Any:
        model = from_pretrained(*args, **options)
        model.model.layers[1].mlp.up_proj.__class__ = TorchAtenLinear
        return model

    monkeypatch.setitem(DECIDES, "mode", mode)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lazy)
    return engine.load(folder, EngineOptions("cpu", "float32", 2))


@pytest.mark.parametrize(("mode", "flagged"), [("inference", set()), ("train", {"TorchAtenLinear"})])
def test_a_fallback_that_the_first_pass_decides_for_is_known_after_loading(
    lively: Path, monkeypatch: pytest.MonkeyPatch, mode: str, flagged: set[str]
) -> None:
    assert set(loaded(lively, monkeypatch, mode).info().fallback_kernels) == flagged


def test_a_kernel_that_keeps_packed_weights_in_a_module_of_its_own_is_counted(
    lively: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loaded(lively, monkeypatch).info().kernels == {"Linear": 13, "TorchAtenLinear": 1}


def test_answering_changes_nothing_of_what_a_session_tells(
    session: TransformersSession, lively: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(of: TransformersSession) -> tuple[Any, ...]:
        return of.info(), of.weight_bytes(), of.decode_weight_bytes()

    lazy = loaded(lively, monkeypatch)
    before = told(lazy)
    [answer] = lazy.generate([PROMPT], 4)
    assert told(lazy) == before
    assert before[1] == session.weight_bytes() + PACKED_BYTES
    assert before[2] == session.decode_weight_bytes() + PACKED_BYTES
    assert [answer] == session.generate([PROMPT], 4)


def test_a_model_with_parts_elsewhere_is_loaded_so_that_they_can_be_named(
    lively: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TransformersSession, "misplaced", lambda _: ["model.norm.weight"])
    passes: list[Any] = []
    monkeypatch.setattr(TransformersSession, "prefill", lambda _, prompts: passes.append(prompts))
    assert engine.load(lively, EngineOptions("cpu", "float32", 2)).misplaced() == ["model.norm.weight"]
    assert passes == []
