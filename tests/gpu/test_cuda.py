"""What only a GPU can tell. Skipped without one; `pytest -m gpu` runs these alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pipeline import records, store
from pipeline.engines import EngineOptions
from pipeline.engines import transformers as engine
from pipeline.probes import device, hardware

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]

OPTIONS = EngineOptions(device="cuda", compute_dtype="float16", threads=1)
PROMPT = list(range(3, 40))


def test_a_model_sits_on_the_gpu_and_answers_there(tiny_checkpoint: Path) -> None:
    session = engine.load(tiny_checkpoint, OPTIONS)
    assert session.misplaced() == []
    assert session.info().device == "cuda"
    assert session.info().threads is None
    times = session.stream(PROMPT, 16).token_s
    assert len(times) == 16
    assert times == sorted(times)
    assert session.prefill(PROMPT) > 0


def test_memory_is_known_on_the_gpu(tiny_checkpoint: Path) -> None:
    session = engine.load(tiny_checkpoint, OPTIONS)
    device.reset_peak("cuda")
    session.stream(PROMPT, 16)
    allocated = device.allocator_peak_bytes("cuda").value
    reserved = device.allocator_reserved_peak_bytes("cuda").value
    assert allocated is not None
    assert reserved is not None
    assert reserved >= allocated >= session.weight_bytes()
    by_driver = device.nvml_process_bytes("cuda")
    # The driver counts the context beside the allocator; in a container it may not list this process at all.
    assert by_driver.value is None or by_driver.value >= reserved


def test_the_environment_names_the_gpu(tmp_path: Path) -> None:
    gpus, reason = hardware.gpus()
    assert reason is None
    assert gpus[0].memory_bytes > 0
    assert gpus[0].driver
    store.write_json(tmp_path / "gpu.json", gpus[0].model_dump())
    assert records.load(tmp_path / "gpu.json", records.Gpu) == gpus[0]
