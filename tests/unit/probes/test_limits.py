"""The bandwidth and product probe: its arithmetic on a counted clock, and small real runs."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from unit.probes.fakes import MIB, FakeCuda

from pipeline.probes import device, hardware, limits
from pipeline.records import Reading, known, missing


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRODUCT_SIZE", {"cpu": 32, "cuda": 32})


def clock(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Each kernel in turn takes the next of these times."""

    def times() -> Iterator[float]:
        now = 0.0
        for taken in seconds:
            yield now
            now += taken
            yield now

    monkeypatch.setattr(time, "perf_counter", times().__next__)


@pytest.mark.usefixtures("small")
def test_rates_are_bytes_named_by_the_kernel_over_its_best_time_but_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, add, read, product = (0.01, 4.0, 2.0), (0.01, 3.0, 6.0), (9.0, 0.5, 8.0), (0.01, 0.25, 1.0)
    clock(monkeypatch, *copy, *add, *read, *product)
    found = limits.measure("cpu", "float32", array_bytes=4096, repeats=3)
    assert found.bytes_per_s == {"copy": 2 * 4096 / 2, "add": 3 * 4096 / 3, "read": 4096 / 0.5}
    assert found.flops_per_s == known(2 * 32**3 / 0.25)
    assert found.array_bytes == 4096


@pytest.mark.usefixtures("small")
def test_the_kernels_touch_whole_arrays_of_the_size_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[int]] = {"copy": [], "add": [], "read": []}
    copy, add, read = torch.Tensor.copy_, torch.add, torch.sum

    def spied(name: str, kernel: Any) -> Any:
        def called(*tensors: torch.Tensor, **out: torch.Tensor) -> torch.Tensor:
            seen[name].append(sum(tensor.nbytes for tensor in (*tensors, *out.values())))
            result: torch.Tensor = kernel(*tensors, **out)
            return result

        return called

    monkeypatch.setattr(torch.Tensor, "copy_", spied("copy", copy))
    monkeypatch.setattr(torch, "add", spied("add", add))
    monkeypatch.setattr(torch, "sum", spied("read", read))
    limits.measure("cpu", "float32", array_bytes=8192, repeats=2)
    assert seen == {"copy": [2 * 8192] * 2, "add": [3 * 8192] * 2, "read": [8192] * 2}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_real_run_gives_rates_of_every_kernel(dtype: str) -> None:
    found = limits.measure("cpu", dtype, array_bytes=MIB, repeats=2)
    assert set(found.bytes_per_s) == {"copy", "add", "read"}
    assert all(rate > 0 for rate in found.bytes_per_s.values())
    assert found.flops_per_s.value is not None
    assert found.flops_per_s.value > 0


@pytest.mark.usefixtures("small")
def test_the_product_is_one_of_the_dtype_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    product = torch.mm

    def spy(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        seen.append((a.dtype, tuple(a.shape), tuple(b.shape), b.is_contiguous()))
        result: torch.Tensor = product(a, b, out=out)
        return result

    monkeypatch.setattr(torch, "mm", spy)
    limits.measure("cpu", "bfloat16", array_bytes=4096, repeats=2)
    assert seen == [(torch.bfloat16, (32, 32), (32, 32), False)] * 2


@pytest.mark.usefixtures("small")
def test_a_dtype_without_product_is_missing_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'\nmore")

    monkeypatch.setattr(torch, "mm", none)
    found = limits.measure("cpu", "float16", array_bytes=4096, repeats=2)
    assert found.flops_per_s == missing("no 32 × 32 product in float16: \"addmm_impl_cpu_\" not implemented for 'Half'")
    assert found.bytes_per_s


def test_one_run_is_too_few() -> None:
    with pytest.raises(ValueError, match="at least 2, not 1"):
        limits.measure("cpu", "float32", array_bytes=4096, repeats=1)


@pytest.mark.parametrize(
    ("on", "cache", "free", "size"),
    [
        ("cpu", known(32 * MIB), 64_000 * MIB, 256 * MIB),
        ("cpu", known(96 * MIB), 64_000 * MIB, 384 * MIB),
        ("cpu", missing("not told"), 64_000 * MIB, 256 * MIB),
        ("cpu", known(96 * MIB), 800 * MIB, 100 * MIB),
        ("cuda", known(96 * MIB), 64_000 * MIB, 1024 * MIB),
        ("cuda", known(1000 * MIB), 64_000 * MIB, 1024 * MIB),
        ("cuda", known(96 * MIB), 800 * MIB, 100 * MIB),
    ],
)
def test_arrays_are_larger_than_any_cache_and_fit_the_memory(
    monkeypatch: pytest.MonkeyPatch, on: str, cache: Reading, free: int, size: int
) -> None:
    monkeypatch.setattr(hardware, "last_level_cache_bytes", lambda: cache)
    monkeypatch.setattr(device, "free_bytes", lambda asked: known(free) if asked == on else known(0))
    assert limits._array_bytes(on) == size


def test_on_cuda_the_device_is_waited_for_and_its_own_clock_counts(cuda: FakeCuda) -> None:
    def kernel() -> None:
        cuda.calls.append("kernel")

    assert limits._seconds("cuda", kernel) == 0.002  # two calls between the events, in ms
    assert cuda.calls == ["synchronize", "record", "kernel", "record", "reached"]


@pytest.mark.usefixtures("small")
def test_no_array_is_left_when_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays: list[weakref.ref[torch.Tensor]] = []
    left: list[int] = []
    ones = torch.ones

    def spy(*shape: int, **options: Any) -> torch.Tensor:
        made: torch.Tensor = ones(*shape, **options)
        arrays.append(weakref.ref(made))
        return made

    monkeypatch.setattr(torch, "ones", spy)
    monkeypatch.setattr(device, "release_memory", lambda: left.append(sum(array() is not None for array in arrays)))
    limits.measure("cpu", "float32", array_bytes=4096, repeats=2)
    assert len(arrays) == 5
    assert left == [0]
