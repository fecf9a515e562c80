from __future__ import annotations

import os
import subprocess
import sys
from typing import get_args

import pytest

from pipeline.errors import UserError
from pipeline.params import Runtime
from pipeline.probes import placement


@pytest.fixture
def affinity(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[int, ...]]]:
    """A process that may use cores 2, 3 and 5; the list of what it is pinned to."""
    calls: list[tuple[int, tuple[int, ...]]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5}, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: calls.append((pid, tuple(cores))), raising=False)
    return calls


def test_this_process_is_pinned_to_the_cores_named(affinity: list[tuple[int, tuple[int, ...]]]) -> None:
    placement.pin([5, 2])
    assert affinity == [(0, (5, 2))]


def test_all_cores_leave_the_process_where_its_starter_put_it(affinity: list[tuple[int, tuple[int, ...]]]) -> None:
    placement.pin(None)
    assert affinity == []


@pytest.mark.parametrize("cores", [[0], [2, 4], [-1], []])
def test_cores_it_may_not_use_are_a_users_mistake(
    affinity: list[tuple[int, tuple[int, ...]]], cores: list[int]
) -> None:
    with pytest.raises(UserError, match=r"runtime\.cores: .* must be some of the cores .* may use: \[2, 3, 5\]"):
        placement.pin(cores)
    assert affinity == []


def test_a_system_without_affinity_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    with pytest.raises(UserError, match=r"runtime\.cores: this system has no call .* set it to null"):
        placement.pin([0])
    placement.pin(None)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no CPU affinity")
def test_threads_started_later_run_on_those_cores_too() -> None:
    core = min(os.sched_getaffinity(0))
    script = (
        "import os, threading; from pipeline.probes import placement\n"
        f"placement.pin([{core}])\n"
        "thread = threading.Thread(target=lambda: print(sorted(os.sched_getaffinity(0))))\n"
        "thread.start()\n"
        "thread.join()"
    )
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert output.strip() == str([core])


def test_every_choice_of_the_params_is_in_the_tables() -> None:
    fields = Runtime.model_fields
    assert set(placement.WAITING) == set(get_args(fields["waiting"].annotation))
    assert set(placement.ALLOCATOR) == set(get_args(fields["allocator"].annotation))


def test_the_environment_is_that_of_both_choices() -> None:
    assert placement.environment("default", "default") == {}
    assert placement.environment("passive", "default") == {
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
        "KMP_BLOCKTIME": "0",
    }
    assert placement.environment("active", "default") == {"OMP_WAIT_POLICY": "ACTIVE", "KMP_BLOCKTIME": "infinite"}
    retain = {
        "MALLOC_TRIM_THRESHOLD_": "8589934592",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TOP_PAD_": "268435456",
        "MALLOC_ARENA_MAX": "1",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }
    assert placement.environment("default", "retain") == retain
    assert placement.environment("active", "retain") == placement.environment("active", "default") | retain


def test_an_environment_changed_by_its_reader_leaves_the_tables_alone() -> None:
    placement.environment("passive", "retain").clear()
    assert placement.environment("passive", "retain")
