from __future__ import annotations

import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.preflight.projects import complete, settings

from pipeline import checkpoint, store
from pipeline.preflight import disk


def with_free(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=free, used=0, free=free))


@pytest.mark.parametrize(("base_is_there", "count"), [(False, 4), (True, 3)])
def test_the_missing_artifacts_and_their_cache_must_fit_on_the_disk(
    project: Path, monkeypatch: pytest.MonkeyPatch, base_is_there: bool, count: int
) -> None:
    if base_is_there:
        complete(store.BASE, project / "model")
    # Each of two bytes per weight, twice (folder and cache), with a fifth more as margin.
    needed = 1.2 * 2 * 2 * checkpoint.parameter_count(project / "model") * count
    with_free(monkeypatch, math.ceil(needed))
    assert list(disk.problems(settings())) == []
    with_free(monkeypatch, needed - 1)
    [problem] = disk.problems(settings())
    assert problem.startswith(f"disk: {count} artifacts and their DVC cache may need ")
    [note] = disk.notes(settings())
    assert note.startswith(f"disk: {count} artifacts take ")
    assert "by estimate (1.2 × 2 copies, folder and DVC cache, × 2 bytes per weight)" in note


def test_a_model_out_of_reach_has_no_size(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_free(monkeypatch, 0)
    elsewhere = {"name": "x", "licence": "x", "source": {"kind": "hub", "id": "a/b", "revision": "0" * 40}}
    assert list(disk.problems(settings(model=elsewhere))) == []
    assert list(disk.notes(settings(model=elsewhere))) == []


def test_artifacts_that_are_there_need_no_room(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(store.BASE, project / "model")
    for name in ("fp16", "int8"):
        complete(store.artifact(name), project / "model")
    with_free(monkeypatch, 0)
    [problem] = disk.problems(settings())
    assert problem.startswith("disk: 1 artifacts")
    complete(store.artifact("int4"), project / "model")
    assert list(disk.problems(settings())) == []
    assert list(disk.notes(settings())) == []


def test_a_file_that_is_written_on_the_way_and_wider_types_need_room_too(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf = {"wide": {"quantizer": "llama_cpp_gguf", "engine": "llama_cpp", "settings": {"type": "F32"}}}
    parameters = checkpoint.parameter_count(project / "model")
    # Three variants and the base of two bytes per weight, one of four; and a float16 file while it is made.
    needed = 1.2 * 2 * (4 * 2 + 4) * parameters + 2 * parameters
    with_free(monkeypatch, math.ceil(needed))
    assert list(disk.problems(settings(gguf))) == []
    with_free(monkeypatch, needed - 1)
    assert len(list(disk.problems(settings(gguf)))) == 1
    [note] = disk.notes(settings(gguf))
    assert "× 2 to 4 bytes per weight), and " in note
    assert "more while one is made; " in note
    complete(store.BASE, project / "model")
    for name in ("fp16", "int8", "int4"):
        complete(store.artifact(name), project / "model")
    [note] = disk.notes(settings(gguf))
    assert "× 4 bytes per weight), and " in note
