from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from pipeline import errors, worker
from pipeline.errors import UserError
from pipeline.records import Outcome, Status


class Job(BaseModel):
    model_config = ConfigDict(extra="forbid")

    variant: str


Work = Callable[..., dict[str, Any]]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    """The result of a worker whose run is the given function, on a job with the given JSON."""

    def working(run: Callable[[Job], Any], job: str = '{"variant": "a"}', name: str = "fake") -> dict[str, Any]:
        module = ModuleType("pipeline.runs.fake")
        module.Job, module.run = Job, run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pipeline.runs.fake", module)
        (tmp_path / "job.json").write_text(job)
        worker.main(name, str(tmp_path / "job.json"), str(tmp_path / "result.json"))
        return dict(json.loads((tmp_path / "result.json").read_text()))

    return working


def raising(error: BaseException) -> Callable[[Job], Any]:
    def run(_: Job) -> Any:
        raise error

    return run


def test_the_record_is_the_result(work: Work) -> None:
    found = work(lambda job: Outcome(variant=job.variant, status=Status.OK))
    assert found == {"record": {"schema_version": 2, "variant": "a", "status": "ok", "reason": None}}


def test_a_users_mistake_is_a_result_of_its_own(work: Work) -> None:
    assert work(raising(UserError(["one", "two"]))) == {"user_error": ["one", "two"]}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("\n  bad size\nand more"), "ValueError: bad size"),
        (MemoryError(), "MemoryError"),
        (RuntimeError(" \n"), "RuntimeError"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_an_exception_is_told_by_type_and_first_line_and_printed_whole(
    work: Work, capsys: pytest.CaptureFixture[str], error: Exception, words: str
) -> None:
    assert work(raising(error)) == {"failed": words}
    assert "Traceback" in capsys.readouterr().err


def test_a_long_reason_is_cut_to_its_limit(work: Work) -> None:
    room = errors.REASON_LENGTH - len("ValueError: ")
    fits = work(raising(ValueError("x" * room)))["failed"]
    assert fits == "ValueError: " + "x" * room
    cut = work(raising(ValueError("x" * (room + 1))))["failed"]
    assert len(cut) == errors.REASON_LENGTH
    assert cut == "ValueError: " + "x" * (room - 1) + "…"


def test_a_job_with_a_wrong_field_fails(work: Work) -> None:
    found = work(raising(AssertionError("not reached")), job='{"variant": "a", "size": 3}')
    assert found["failed"].startswith("ValidationError: ")


def test_an_unknown_run_fails(work: Work) -> None:
    found = work(raising(AssertionError("not reached")), name="no_such_run")
    assert found == {"failed": "ModuleNotFoundError: No module named 'pipeline.runs.no_such_run'"}


def test_an_exit_is_left_to_the_process(work: Work, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        work(raising(SystemExit(4)))
    assert not (tmp_path / "result.json").exists()
