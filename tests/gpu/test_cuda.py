"""What only a GPU can tell. Skipped without one; `pytest -m gpu` runs these alone."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
import torch

from pipeline import records, store
from pipeline.engines import EngineOptions, Question
from pipeline.engines import transformers as engine
from pipeline.engines.transformers import TransformersSession
from pipeline.probes import contention, device, hardware, limits

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]

OPTIONS = EngineOptions(device="cuda", compute_dtype="float16", threads=1)
PROMPT = list(range(3, 40))
GIB = 2**30


@pytest.fixture(scope="module")
def session(tiny_checkpoint: Path) -> TransformersSession:
    return engine.load(tiny_checkpoint, OPTIONS)


def test_a_model_sits_on_the_gpu(session: TransformersSession) -> None:
    assert session.misplaced() == []
    assert session.info().device == "cuda"
    assert session.info().threads is None
    assert session.info().fallback_kernels == {}


@pytest.mark.parametrize("streams", [1, 4])
def test_answers_have_rising_times_by_every_clock(session: TransformersSession, streams: int) -> None:
    reading = session.answer([PROMPT] * streams, 16)
    assert len(reading.token_s) == 16
    assert all(earlier < later for earlier, later in itertools.pairwise(reading.token_s))
    assert reading.cpu_s is not None
    assert 0 < reading.cpu_s[0] < reading.cpu_s[1]
    assert reading.device_s is not None
    assert 0 < reading.device_s[0] < reading.device_s[1]
    # The device is idle at each mark, so both clocks span the same time: a mistaken unit would be off by a thousand.
    assert reading.device_s[1] == pytest.approx(reading.token_s[-1], rel=0.5)
    assert session.prefill([PROMPT] * streams) > 0


def test_answers_to_eval_items_are_those_of_the_cpu(tiny_checkpoint: Path) -> None:
    shared = list(range(200, 211))
    prompts = [[*shared, *PROMPT[:length]] for length in (1, 9, 4, 17)]
    questions = [Question(prompt, [[30], [31, 32, 33], [34, 35]]) for prompt in prompts]
    answers, logprobs, logits = [], [], []
    for on in ("cpu", "cuda"):
        session = engine.load(tiny_checkpoint, EngineOptions(on, "float32", 2))
        answers.append([session.generate(prompts, 8, prefix) for prefix in ([], shared)])
        logprobs.append([value for row in session.choice_logprobs(questions, shared) for value in row])
        logits.append(session.next_token_logits(prompts[1]))
    assert answers[0] == answers[1]
    assert logprobs[1] == pytest.approx(logprobs[0], abs=1e-3)
    assert abs(logits[1] - logits[0]).max() < 1e-3


def test_the_cache_on_the_gpu_is_the_one_of_the_formula(session: TransformersSession) -> None:
    cache = session.kv_cache(PROMPT)
    assert cache.measured_tokens == len(PROMPT)
    per_token = 2 * cache.layers * cache.kv_heads * cache.head_dim * cache.bytes_per_element
    assert cache.measured_bytes == per_token * len(PROMPT)


def test_memory_is_known_on_the_gpu(session: TransformersSession) -> None:
    assert device.reset_peak("cuda") is True
    session.answer([PROMPT], 16)
    allocated = device.allocator_peak_bytes("cuda").value
    reserved = device.allocator_reserved_peak_bytes("cuda").value
    assert allocated is not None
    assert reserved is not None
    assert reserved >= allocated >= session.weight_bytes()
    assert device.peak_bytes("cuda").value == reserved
    by_driver = device.nvml_process_bytes("cuda")
    # The driver counts the context beside the allocator; in a container it may not list this process at all.
    assert by_driver.value is None or by_driver.value >= reserved


def test_what_is_taken_is_no_longer_free_until_it_is_released() -> None:
    device.release_memory()
    before = device.free_bytes("cuda").value
    taken = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    during = device.free_bytes("cuda").value
    del taken
    kept = device.free_bytes("cuda").value
    device.release_memory()
    after = device.free_bytes("cuda").value
    assert before is not None
    assert during is not None
    assert before - during >= GIB
    assert kept == during
    assert after == before


def test_nvml_and_torch_mean_the_same_gpu() -> None:
    by_driver, by_torch = hardware.gpu_free_bytes().value, device.free_bytes("cuda").value
    assert by_driver is not None
    assert by_torch is not None
    assert abs(by_driver - by_torch) < GIB


def test_memory_that_is_not_there_is_told() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**50, dtype=torch.uint8, device="cuda")
    assert device.is_out_of_memory(raised.value)


def test_other_processes_and_throttling_are_told_or_missing_with_a_reason(session: TransformersSession) -> None:
    session.answer([PROMPT], 4)
    foreign = contention.foreign_gpu_processes("cuda", [os.getpid()])
    assert foreign.reason or foreign.value is not None
    # One process of a number that is not ours: this one, unless the driver lists none at all.
    with_us = contention.foreign_gpu_processes("cuda", [])
    assert with_us.reason or (with_us.value or 0) >= 1
    assert contention.throttled("cuda").value in (None, 0.0, 1.0)


def test_the_limits_are_those_of_a_gpu() -> None:
    before = device.free_bytes("cuda").value
    found = limits.measure("cuda", "float16")
    assert found.array_bytes <= GIB
    for rate in found.bytes_per_s.values():
        assert 50e9 < rate < 50e12
    assert found.flops_per_s.value is not None
    assert 1e12 < found.flops_per_s.value < 1e16
    assert device.free_bytes("cuda").value == pytest.approx(before, abs=GIB)  # but for cuBLAS's own workspace


def test_the_environment_names_the_gpu(tmp_path: Path) -> None:
    gpus, reason = hardware.gpus()
    assert reason is None
    assert gpus[0].memory_bytes > 0
    assert gpus[0].driver
    store.write_json(tmp_path / "gpu.json", gpus[0].model_dump())
    assert records.load(tmp_path / "gpu.json", records.Gpu) == gpus[0]
