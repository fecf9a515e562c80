from __future__ import annotations

from pathlib import Path

import pytest
from unit.preflight.projects import complete, settings

from pipeline import checkpoint, store
from pipeline.preflight import memory
from pipeline.probes import hardware

MIB = 2**20


def with_memory(monkeypatch: pytest.MonkeyPatch, total: float, free: float) -> None:
    monkeypatch.setattr(hardware, "gpus", lambda: ([], "no driver"))
    monkeypatch.setattr(hardware, "memory_bytes", lambda: total)
    monkeypatch.setattr(hardware, "available_bytes", lambda: free)


def test_weights_larger_than_all_memory_are_a_problem(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = checkpoint.parameter_count(project / "model")
    with_memory(monkeypatch, 2 * parameters, 0)
    assert list(memory.problems(settings())) == []
    with_memory(monkeypatch, 2 * parameters - 1, 0)
    [problem] = memory.problems(settings())
    assert problem.startswith(f"memory: {parameters:,} weights of 2 bytes are ")


def test_each_missing_artifact_has_an_estimate_with_its_formula(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 2**40, 2**39)
    complete(store.artifact("int8"), project / "model")
    gptq, both = memory.notes(settings())
    assert gptq.startswith("variants.int4: memory for quantizing: ")
    for words in (
        "weights in float32",
        "a block's Hessians",
        "768 MiB libraries",
        "512.00 GiB of this machine are free",
    ):
        assert words in gptq
    assert both.startswith("benchmark: two models loaded at once: 1.50 GiB by estimate (")


def test_an_estimate_beyond_what_is_free_is_said_first() -> None:
    from pipeline.records import known, missing

    room = memory.Room("the GPU", known(100 * MIB), known(50 * MIB))
    parts = {"weights": 40.0 * MIB, "search": 11.0 * MIB}
    assert memory.estimate("quantizing", parts, room) == (
        "may not fit: quantizing: 51 MiB by estimate (40 MiB weights + 11 MiB search); 50 MiB of the GPU are free"
    )
    parts["search"] = 10.0 * MIB
    assert memory.estimate("quantizing", parts, room).startswith("quantizing: 50 MiB by estimate")
    unknown = memory.Room("the GPU", missing("x"), missing("NVML: gone"))
    assert memory.estimate("quantizing", parts, unknown).endswith("; (NVML: gone)")


def test_the_estimate_for_gptq_is_a_sum_of_what_its_docstring_says() -> None:
    from unit.quantizers.test_check import CALIBRATION, SMOLLM

    from pipeline.quantizers import gptqmodel_gptq

    wanted = gptqmodel_gptq.Settings(calibration=CALIBRATION)
    # 1000 weights of 4 bytes; input and output of 10 tokens × 1536 in 4 bytes; Hessians of 576 and 1536 inputs, and
    # two more of the widest while it is inverted.
    assert wanted.working_bytes(SMOLLM, 1000, 10, "cpu") == {
        "weights in float32": 4000,
        "a block's input and output on the calibration text": 2 * 4 * 10 * 1536,
        "a block's Hessians": 4 * (576**2 + 1536**2 + 2 * 1536**2),
    }
    # On a GPU the model is in float16, the Hessians are not.
    assert wanted.working_bytes(SMOLLM, 1000, 10, "cuda") == {
        "weights in float16": 2000,
        "a block's input and output on the calibration text": 2 * 2 * 10 * 1536,
        "a block's Hessians": 4 * (576**2 + 1536**2 + 2 * 1536**2),
    }
