from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from unit.preflight.projects import CALIBRATION, PARAMS, settings

from pipeline import installed
from pipeline.params import Params
from pipeline.preflight import machine
from pipeline.probes import hardware
from pipeline.records import Gpu, Reading, known, missing

GPU = Gpu(name="Tesla T4", memory_bytes=16 * 2**30, driver="550.54")


def on(device: str, variants: dict[str, Any] | None = None) -> Params:
    return settings(variants, runtime=PARAMS["runtime"] | {"device": device})


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with this GPU, driver and build of torch."""

    def make(
        *, gpu: Gpu | None = GPU, capability: float = 9.0, driver: Reading | None = None, cuda: str | None = "12.8"
    ) -> None:
        monkeypatch.setattr(hardware, "gpus", lambda: ([gpu], None) if gpu else ([], "no driver"))
        monkeypatch.setattr(
            hardware, "compute_capability", lambda: known(capability) if gpu else missing("there is no GPU")
        )
        monkeypatch.setattr(hardware, "driver_cuda_version", lambda: driver or known(12.8))
        monkeypatch.setattr(installed, "constants", lambda *_: {"__version__": "2.13.0", "cuda": cuda})

    return make


def test_cuda_without_a_gpu_is_a_problem(here: Any) -> None:
    here(gpu=None)
    assert list(machine.problems(on("cuda"))) == [
        "runtime.device: cuda, but there is no GPU here (no driver); set it to auto or cpu"
    ]
    assert list(machine.problems(on("auto"))) == []
    assert machine.device_here(on("auto")) == "cpu"


def test_a_gpu_that_torch_can_use_is_no_problem(here: Any) -> None:
    here()
    assert list(machine.problems(on("cuda"))) == []
    assert machine.device_here(on("cuda")) == machine.device_here(on("auto")) == "cuda"
    assert machine.device_here(on("cpu")) == "cpu"


def test_a_torch_without_cuda_beside_a_gpu_is_told(here: Any) -> None:
    here(cuda=None)
    words = (
        "torch 2.13.0 is a build without CUDA, which cannot use the Tesla T4; install the CUDA build of the same "
        "version"
    )
    assert list(machine.problems(on("cuda"))) == [f"runtime.device: cuda, but {words}"]
    assert list(machine.problems(on("auto"))) == []
    assert f"runtime.device: auto means the CPU here, though there is a GPU: {words}" in list(machine.notes(on("auto")))
    assert machine.device_here(on("auto")) == "cpu"


@pytest.mark.parametrize(
    ("cuda", "driver", "works"), [("13.0", 12.8, False), ("12.9", 12.2, True), ("12.8", 13.0, True)]
)
def test_the_driver_must_run_the_major_version_of_cuda_that_torch_is_built_for(
    here: Any, cuda: str, driver: float, works: bool
) -> None:
    here(cuda=cuda, driver=known(driver))
    found = list(machine.problems(on("cuda")))
    assert (found == []) is works
    if not works:
        assert found == [
            "runtime.device: cuda, but torch 2.13.0 is built for CUDA 13.0, and driver 550.54 runs CUDA up to 12.8; "
            "update the driver, or install a torch built for an older CUDA"
        ]


def test_a_driver_that_does_not_tell_is_believed(here: Any) -> None:
    here(driver=missing("NVML: not supported"))
    assert list(machine.problems(on("cuda"))) == []


def gptq(**wanted: Any) -> dict[str, Any]:
    return {"int4": PARAMS["variants"]["int4"] | {"settings": {"calibration": CALIBRATION, **wanted}}}


def about(name: str, notes: Any) -> list[str]:
    return [note for note in notes if note.startswith(f"variants.{name}:")]


def test_weights_that_no_packed_kernel_reads_are_told(here: Any) -> None:
    here(gpu=None)
    assert about("int4", machine.notes(on("cpu", gptq()))) == []
    assert about("int4", machine.notes(on("cpu", gptq(bits=8, group_size=-1, act_group_aware=False)))) == [
        "variants.int4: kernel TorchAtenLinear reads weights of 4 bits, not 8; reads groups of 32 or 64 or 128, "
        "not -1; a general one turns the weights back to floats at each pass, which is right but slow"
    ]
    here()
    assert about("int4", machine.notes(on("cuda", gptq(bits=8, group_size=-1, act_group_aware=False)))) == []
    [asymmetric] = about("int4", machine.notes(on("cuda", gptq(sym=False))))
    assert asymmetric.startswith("variants.int4: kernel MarlinLinear reads symmetric weights alone (sym: true); ")


def test_groups_that_a_kernel_takes_and_cannot_read_are_a_problem(here: Any) -> None:
    here(gpu=None)
    assert list(machine.problems(on("cpu", gptq(group_size=16)))) == [
        "variants.int4: kernel TorchAtenLinear is chosen for groups of 16, and fails at the first pass; give other "
        "settings, or another device"
    ]
    assert about("int4", machine.notes(on("cpu", gptq(group_size=16)))) == []
    # Of 8 bits another kernel is chosen.
    assert list(machine.problems(on("cpu", gptq(group_size=16, bits=8)))) == []
    here()
    assert list(machine.problems(on("cuda", gptq(group_size=16)))) == []


def test_a_gpu_too_old_for_a_kernel_is_told(here: Any) -> None:
    here(capability=7.0)
    [note] = about("int4", machine.notes(on("cuda", gptq())))
    assert note.startswith(
        "variants.int4: kernel MarlinLinear needs a GPU of compute capability 7.5, this one has 7; a general one"
    )
    here(capability=7.5)
    assert about("int4", machine.notes(on("cuda", gptq()))) == []
    here(capability=7.0)
    assert about("int8", machine.notes(on("cuda"))) == [
        "variants.int8: kernel LLM.int8() needs a GPU of compute capability 7.5, this one has 7; nothing else runs "
        "these weights, so the variant will fail"
    ]
    # On the CPU the GPU's age does not matter.
    here(capability=7.0)
    assert about("int4", machine.notes(on("cpu", gptq()))) == []


def test_cores_that_are_not_there_are_a_problem() -> None:
    here = sorted(os.sched_getaffinity(0))
    wanted = settings(runtime=PARAMS["runtime"] | {"cores": [*here[:1], 9999]})
    assert list(machine.problems(wanted)) == [
        f"runtime.cores: [{here[0]}, 9999] must be some of the cores that this process may use: {here}"
    ]
    assert list(machine.problems(settings(runtime=PARAMS["runtime"] | {"cores": here}))) == []


def test_the_installed_torch_tells_its_build(project: Path) -> None:
    import torch

    found = installed.constants("torch", "version.py")
    assert (found["__version__"], found["cuda"]) == (torch.__version__, torch.version.cuda)


def test_fp8_that_cannot_work_in_the_compute_type_is_a_problem(here: Any) -> None:
    fp8 = {"fp8": {"quantizer": "torchao_fp8", "engine": "transformers"}}
    here()
    [problem] = machine.problems(on("cuda", fp8))
    assert problem.startswith("variants.fp8: kernel torch._scaled_mm gives bfloat16 alone where rows have scales of")
    tensor = {"fp8": fp8["fp8"] | {"settings": {"granularity": "tensor"}}}
    assert list(machine.problems(on("cuda", tensor))) == []
    assert list(machine.problems(on("cpu", fp8))) == []
