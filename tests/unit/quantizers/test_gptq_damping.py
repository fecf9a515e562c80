"""The ladder on GPTQModel's own Hessian code, with Hessians whose smallest eigenvalue is known."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.artifact_records import Attempt
from pipeline.quantizers import _gptq_damping, _gptqmodel

NAME = "model.layers.0.mlp.down_proj"
FAILURE = "the Hessian is not positive-definite"


@pytest.fixture
def attempts() -> list[Attempt]:
    return []


@pytest.fixture
def task() -> Any:
    """GPTQModel's worker on a layer of 4 inputs, damping by 0.05."""
    import torch
    from gptqmodel.quantization.config import GPTQConfig
    from gptqmodel.quantization.gptq import GPTQ

    made = GPTQ(torch.nn.Linear(4, 4), GPTQConfig(damp_percent=0.05, group_size=2))
    made._named_module = SimpleNamespace(full_name=NAME)
    return made


@pytest.fixture
def ladder(attempts: list[Attempt]) -> Iterator[None]:
    """Steps of 0.1, twice."""
    from gptqmodel.quantization.gptq import GPTQ

    with _gptqmodel.replaced(GPTQ, "hessian_inverse", lambda plain: _gptq_damping.with_ladder(plain, 0.1, 2, attempts)):
        yield


def hessian(lowest: float) -> Any:
    """Ones on the diagonal, and eigenvalues `lowest`, 2 - `lowest`, 1, 1: dampings above -`lowest` make it definite."""
    import torch

    made = torch.eye(4)
    made[0, 1] = made[1, 0] = 1 - lowest
    return made


def tried(*dampings: tuple[float, str | None]) -> list[Attempt]:
    return [Attempt(settings={"module": NAME, "damp_percent": d}, failure=failure) for d, failure in dampings]


def test_a_good_hessian_needs_one_try_and_gives_what_gptqmodel_gives(
    task: Any, attempts: list[Attempt], ladder: None
) -> None:
    import torch

    factor, damping = task.hessian_inverse(hessian(0.5))
    assert damping == 0.05
    assert attempts == []
    expected = torch.linalg.cholesky(torch.linalg.inv(hessian(0.5) + 0.05 * torch.eye(4)), upper=True)
    torch.testing.assert_close(factor, expected)


def test_each_try_of_a_bad_hessian_is_recorded(task: Any, attempts: list[Attempt], ladder: None) -> None:
    import torch

    bad = hessian(-0.2)
    factor, damping = task.hessian_inverse(bad)
    assert damping == 0.25
    assert attempts == tried((0.05, FAILURE), (0.15, FAILURE), (0.25, None))
    expected = torch.linalg.cholesky(torch.linalg.inv(hessian(-0.2) + 0.25 * torch.eye(4)), upper=True)
    torch.testing.assert_close(factor, expected, rtol=1e-4, atol=1e-4)
    # What GPTQModel adds to a diagonal in despair is not left in it.
    assert torch.equal(bad, hessian(-0.2))
    assert (task.qcfg.damp_percent, task.qcfg.damp_auto_increment) == (0.05, 0.01)


def test_a_hessian_beyond_the_last_rung_is_an_error_that_names_layer_and_tries(
    task: Any, attempts: list[Attempt], ladder: None
) -> None:
    with pytest.raises(RuntimeError) as caught:
        task.hessian_inverse(hessian(-0.3))
    assert str(caught.value) == (
        f"{NAME}: {FAILURE} at damp_percent 0.05, 0.15, 0.25; give more calibration samples, or raise damp_percent, "
        "damp_auto_increment or damp_retries"
    )


def test_without_the_ladder_gptqmodel_goes_on_in_silence(task: Any) -> None:
    """Where this fails GPTQModel has begun to raise, and the ladder may be left to it."""
    factor, _ = task.hessian_inverse(hessian(-0.3))
    assert factor is not None
    nothing, _ = task.hessian_inverse(hessian(float("nan")))
    assert nothing is None


def test_a_hessian_with_nan_is_never_definite(task: Any, ladder: None) -> None:
    with pytest.raises(RuntimeError, match=r"not positive-definite at damp_percent 0\.05, 0\.15, 0\.25"):
        task.hessian_inverse(hessian(float("nan")))


def test_an_error_that_is_not_a_number_is_not_made_up_for(task: Any) -> None:
    from gptqmodel.quantization.gptq import GPTQ

    with (
        _gptqmodel.replaced(GPTQ, "mock_hessian_inverse", _gptq_damping.without_mock),
        pytest.raises(RuntimeError, match=f"{NAME}: the error of the quantized layer is not a number"),
    ):
        task.mock_hessian_inverse(hessian(0.5))


def test_what_is_replaced_comes_back_even_after_an_error() -> None:
    owner, seen = SimpleNamespace(work=1), []

    def fail() -> None:
        with _gptqmodel.replaced(owner, "work", lambda plain: plain + 1):
            seen.append(owner.work)
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    assert (seen, owner.work) == ([2], 1)


@pytest.mark.parametrize(
    ("start", "step", "retries", "rungs"),
    [(0.05, 0.05, 0, [0.05]), (0.05, 0.05, 3, [0.05, 0.1, 0.15, 0.2]), (0.1, 0.3, 2, [0.1, 0.4, 0.7])],
)
def test_rungs(start: float, step: float, retries: int, rungs: list[float]) -> None:
    assert _gptq_damping.rungs(start, step, retries) == rungs


def test_attempts_stand_in_the_order_of_the_layers() -> None:
    made = [Attempt(settings={"module": name, "n": n}, failure=None) for n, name in enumerate("bab?")]
    ordered = _gptq_damping.in_order(made, ["a", "b"])
    assert [(a.settings["module"], a.settings["n"]) for a in ordered] == [("a", 1), ("b", 0), ("b", 2), ("?", 3)]
