from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

from pipeline.errors import UserError
from pipeline.sources import hub
from pipeline.yaml_files import section_problems

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SETTINGS = hub.Settings(id="HuggingFaceTB/SmolLM2-135M-Instruct", revision=COMMIT)


def test_a_model_at_a_commit_is_described_and_pinned() -> None:
    assert hub.describe(SETTINGS) == "hub:HuggingFaceTB/SmolLM2-135M-Instruct"
    assert hub.revision(SETTINGS) == COMMIT
    assert hub.problems(SETTINGS) == []


@pytest.mark.parametrize("revision", ["main", "v1.0", COMMIT[:8], COMMIT.upper(), COMMIT + "0", ""])
def test_a_revision_that_can_move_is_refused(revision: str) -> None:
    [problem] = section_problems(hub.Settings, {"id": "a/b", "revision": revision}, "model.source")
    assert problem.startswith("model.source.revision: ")
    assert "expected the 40 hex digits of a commit; branches and tags can move" in problem


@pytest.mark.parametrize("name", ["SmolLM2", "a/b/c", "/b", "a/", "a b/c", "https://huggingface.co/a/b"])
def test_a_name_that_is_no_hub_id_is_refused(name: str) -> None:
    [problem] = section_problems(hub.Settings, {"id": name, "revision": COMMIT})
    assert problem.startswith("id: ")
    assert "expected organisation/model" in problem


def downloading(monkeypatch: pytest.MonkeyPatch, download: Callable[..., str]) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)


def test_the_snapshot_is_that_of_the_commit_and_holds_no_pickle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    asked: dict[str, Any] = {}

    def download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(tiny_checkpoint)

    downloading(monkeypatch, download)
    hub.fetch(SETTINGS, tmp_path / "out")
    assert (asked["name"], asked["revision"]) == (SETTINGS.id, COMMIT)
    assert "*.safetensors" in asked["allow_patterns"]
    assert not [pattern for pattern in asked["allow_patterns"] if pattern.endswith((".bin", ".pt", ".pth", ".py", "*"))]
    assert (tmp_path / "out" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    "error",
    [LocalEntryNotFoundError("not cached\nmore"), OfflineModeIsEnabled("offline"), ConnectionError("down"), OSError()],
)
def test_a_model_that_cannot_be_had_is_a_users_matter_on_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    def download(*_: Any, **__: Any) -> str:
        raise error

    downloading(monkeypatch, download)
    with pytest.raises(UserError) as caught:
        hub.fetch(SETTINGS, tmp_path / "out")
    [problem] = caught.value.problems
    words = str(error).split("\n")[0] or type(error).__name__
    assert problem.startswith(f"model.source: cannot fetch {SETTINGS.id} at {COMMIT} from the hub ({words})")
    assert "\n" not in problem
