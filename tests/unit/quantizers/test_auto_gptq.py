from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import ValidationError

from pipeline import progress
from pipeline.artifact_records import Attempt
from pipeline.calibration import CalibrationSettings
from pipeline.checkpoint import Linear
from pipeline.model_shape import ModelShape
from pipeline.quantizers import auto_gptq, gptqmodel_gptq

CALIBRATION = CalibrationSettings(set="general", samples=8)
SINGULAR = "the Hessian is not positive-definite"


def settings(**changes: Any) -> auto_gptq.Settings:
    return auto_gptq.Settings(calibration=CALIBRATION, **changes)


def shape(*sizes: tuple[int, int], model_type: str = "llama") -> ModelShape:
    layers = tuple(Linear(f"model.layers.0.mlp.m{place}", *size) for place, size in enumerate(sizes))
    return ModelShape(model_type, "", layers, lm_head=None, attention_heads=None)


def test_what_auto_gptq_can_pack_is_good() -> None:
    assert auto_gptq.check(settings(), shape((576, 576), (1536, 192))) == []
    assert auto_gptq.check(settings(group_size=-1), shape((96, 32))) == []


@pytest.mark.parametrize("size", [(80, 64), (64, 80)])
def test_sizes_that_auto_gptq_would_cut_off_are_refused(size: tuple[int, int]) -> None:
    [problem] = auto_gptq.check(settings(group_size=16), shape((64, 64), size))
    assert problem == (
        f"bits: model.layers.0.mlp.m1 has {size[0]} input and {size[1]} output features, but auto-gptq packs multiples "
        "of 32 only; use gptqmodel_gptq"
    )


def test_every_problem_is_told_at_once() -> None:
    problems = auto_gptq.check(
        settings(group_size=128, damp_percent=0.5, damp_retries=10), shape((576, 576), model_type="gemma3")
    )
    assert [problem.split(":")[0].split(" ")[0] for problem in problems] == [
        "group_size",
        "damp_retries",
        "calibration",
    ]
    assert "would damp by 1, " in problems[1]


def test_asymmetric_checkpoints_which_no_loader_reads_cannot_be_asked_for() -> None:
    with pytest.raises(ValidationError, match="sym"):
        settings(sym=False)


def test_the_estimate_of_memory_counts_float32_weights_and_hessians() -> None:
    # 1000 weights of 4 bytes; input and output of 10 tokens × 1536 in 4 bytes; Hessians of 576 and 1536 inputs, and
    # two more of the widest while it is inverted.
    assert settings().working_bytes(shape((576, 192), (1536, 576)), 1000, 10, "cpu") == {
        "weights in float32": 4000,
        "a block's input and output on the calibration text": 2 * 4 * 10 * 1536,
        "a block's Hessians": 4 * (576**2 + 1536**2 + 2 * 1536**2),
    }


def test_fewer_tokens_than_the_widest_layer_has_inputs_are_too_few() -> None:
    assert settings().tokens_needed(shape((576, 192), (1536, 576)))[0] == 1536


def test_the_kernel_is_that_of_gptq_checkpoints() -> None:
    assert settings().kernel("cpu", "bfloat16") == gptqmodel_gptq.Settings(calibration=CALIBRATION).kernel(
        "cpu", "bfloat16"
    )
    assert settings().kernel("cuda", "bfloat16") == gptqmodel_gptq.Settings(calibration=CALIBRATION).kernel(
        "cuda", "bfloat16"
    )
    assert "4 bits, not 3" in (settings(bits=3).kernel("cpu", "bfloat16").unfit or "")


class Task:
    """Stands for auto-gptq's GPTQ of one layer, whose Hessian can be inverted from a damping on."""

    def __init__(self, layer: object, enough: float) -> None:
        import torch

        self.layer = layer
        self.H = torch.ones(2, 2)
        self.enough = enough
        self.seen: list[tuple[float, Any]] = []

    def fasterquant(self, percdamp: float, group_size: int) -> tuple[float, int]:
        import torch

        hessian = self.H
        del self.H
        self.seen.append((percdamp, hessian.clone()))
        hessian += percdamp
        if percdamp < self.enough:
            raise torch.linalg.LinAlgError("The factorization could not be completed")
        return percdamp, group_size


def run_ladder(enough: float, attempts: list[Attempt], **changes: Any) -> tuple[Any, Task]:
    layer = object()
    task = Task(layer, enough)
    wanted = settings(damp_percent=0.1, damp_auto_increment=0.2, **changes)
    ladder = auto_gptq.with_ladder(Task.fasterquant, wanted, {layer: "layers.0.q_proj"}, attempts)
    return ladder(task, percdamp=0.1, group_size=64), task


def test_a_layer_that_needs_no_retry_leaves_no_attempt() -> None:
    attempts: list[Attempt] = []
    done, _ = run_ladder(0.1, attempts)
    assert done == (0.1, 64)
    assert attempts == []


def test_each_retry_damps_the_same_hessian_more_and_is_recorded() -> None:
    attempts: list[Attempt] = []
    done, task = run_ladder(0.5, attempts)
    assert done == (0.5, 64)
    assert [attempt.model_dump() for attempt in attempts] == [
        {"settings": {"module": "layers.0.q_proj", "damp_percent": 0.1}, "failure": SINGULAR},
        {"settings": {"module": "layers.0.q_proj", "damp_percent": 0.3}, "failure": SINGULAR},
        {"settings": {"module": "layers.0.q_proj", "damp_percent": 0.5}, "failure": None},
    ]
    assert all(bool((hessian == 1).all()) for _, hessian in task.seen)


def test_the_ladder_ends_with_an_error_that_names_what_was_tried() -> None:
    with pytest.raises(RuntimeError, match=r"layers\.0\.q_proj: .* at damp_percent 0\.1, 0\.3; give more"):
        run_ladder(0.9, [], damp_retries=1)


def test_another_error_is_not_taken_for_a_singular_hessian() -> None:
    layer = object()

    def broken(task: Any, **options: Any) -> None:
        raise RuntimeError("out of memory")

    ladder = auto_gptq.with_ladder(broken, settings(), {layer: "q_proj"}, [])
    with pytest.raises(RuntimeError, match="out of memory"):
        ladder(Task(layer, 0.0), percdamp=0.1)


def test_progress_is_read_in_auto_gptq_s_log(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("auto_gptq.modeling._base")
    with auto_gptq._layers_reported():
        log.warning("Start quantizing layer 3/30")
        log.warning("Quantizing self_attn.k_proj in layer 3/30...")
    log.warning("Start quantizing layer 4/30")
    told = [step for line in capsys.readouterr().out.splitlines() if (step := progress.parse(line))]
    assert told == [progress.Progress(2, 30, "layers")]
