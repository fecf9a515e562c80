from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.diff import places
from pipeline.errors import UserError


def test_a_revision_is_read_as_it_was_committed_and_leaves_nothing(reports, build):
    commit = reports.commit("first", build.evidence("fp16"))
    reports.make(build.evidence("fp16"), build.evidence("int8"))
    with places.opened("HEAD") as place:
        assert place.commit == commit
        assert (place.reports / "speed" / "fp16.json").is_file()
        assert not (place.reports / "speed" / "int8.json").exists()
        assert place.params.is_file()
        scratch = place.reports.parent
    assert not scratch.exists()


def test_tags_branches_and_shortened_commits_are_revisions(reports, build):
    commit = reports.commit("first", build.evidence("fp16"))
    reports.git("tag", "v1.0")
    reports.git("branch", "release")
    for name in ("v1.0", "release", commit[:8], "HEAD"):
        with places.opened(name) as place:
            assert place.commit == commit


def test_a_project_in_a_folder_of_the_repository(reports, build, monkeypatch, tmp_path):
    reports.make(build.evidence("fp16"))
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("reports", "params.yaml"):
        (tmp_path / name).rename(inner / name)
    reports.git("init", "-q")
    reports.git("add", "inner")
    reports.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "inner")
    monkeypatch.chdir(inner)
    with places.opened("HEAD") as place:
        assert (place.reports / "decision.json").is_file()
        assert place.params.is_file()


def test_folders_are_projects_or_reports(reports, build):
    folder = reports.keep("a", build.evidence("fp16"))
    for given in (str(folder), str(folder / "reports"), ".", ""):
        with places.opened(given) as place:
            assert place.commit is None
            assert (place.reports / "decision.json").is_file()
            assert place.params.is_file()


def test_what_is_neither_is_told_with_what_to_give(reports, build):
    reports.commit("first", build.evidence("fp16"))
    with pytest.raises(UserError, match="'v9' is neither a Git revision nor a folder here; give a tag, branch or"):
        places.opened("v9").__enter__()


def test_a_folder_or_a_commit_without_a_report(reports, build, tmp_path):
    Path("empty").mkdir()
    with pytest.raises(UserError, match="empty: holds no report"):
        places.opened("empty").__enter__()
    reports.git("init", "-q")
    Path("params.yaml").touch()
    Path("a.txt").write_text("a")
    reports.git("add", "a.txt")
    reports.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "no report")
    with pytest.raises(UserError, match="has no folder reports here; choose a later one"):
        places.opened("HEAD").__enter__()


def test_a_folder_below_the_project_is_told_where_to_go(reports, build, monkeypatch):
    reports.commit("first", build.evidence("fp16"))
    Path("docs").mkdir()
    monkeypatch.chdir("docs")
    said = r"has no folder reports here; run this in the folder that holds params\.yaml, or choose a later one"
    with pytest.raises(UserError, match=said):
        places.opened("HEAD").__enter__()


def test_outside_a_repository_no_revision_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="'HEAD' is no folder here, and this folder is in no Git repository, so that"):
        places.opened("HEAD").__enter__()


def test_a_name_that_can_mean_both_is_refused(reports, build):
    reports.commit("first", build.evidence("fp16"))
    reports.git("branch", "kept")
    reports.keep("a", build.evidence("fp16"))
    with pytest.raises(UserError, match=r"'kept' is both a folder and a Git revision; write `./kept` for the folder"):
        places.opened("kept").__enter__()
    with places.opened("./kept/a") as place:
        assert place.commit is None


@pytest.mark.parametrize("given", ["--output=x", "HEAD:reports", "HEAD^{tree}"])
def test_an_option_or_another_object_is_no_revision(reports, build, given):
    reports.commit("first", build.evidence("fp16"))
    with pytest.raises(UserError, match="neither a Git revision nor a folder"):
        places.opened(given).__enter__()
    assert not Path("x").exists()
