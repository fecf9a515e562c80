from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.toolchains.conftest import Make

from pipeline.toolchains import Toolchain, environments, preflight


@pytest.fixture
def are_installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    names: set[str] = set()

    def installed(toolchain: Toolchain) -> Path | None:
        return Path("/made") if toolchain.name in names else None

    monkeypatch.setattr(environments, "installed", installed)
    return names


def test_nothing_is_said_without_toolchains_or_once_they_are_installed(make: Make, are_installed: set[str]) -> None:
    assert preflight.problems([None, None]) == preflight.notes([None]) == []
    pin = make(python=["3.99"]).pin
    are_installed.add("tiny")
    assert preflight.problems([pin, None]) == preflight.notes([pin]) == []


def test_what_the_first_run_will_do_is_noted_once(make: Make, are_installed: set[str]) -> None:
    pin = make().pin
    assert preflight.problems([pin, pin]) == []
    assert preflight.notes([pin, None, pin]) == [
        "toolchain tiny is not installed: the first run that needs it makes it, about 0.1 GiB to download and 0.2 GiB "
        "on disk; `quantgate toolchain install tiny` does so now"
    ]


def test_every_toolchain_that_cannot_be_made_is_a_problem(
    make: Make, are_installed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, without_python = make("good").pin, make("old", python=["3.99"]).pin
    are_installed.add("good")
    found = preflight.problems([good, without_python, "gone@0123456789ab", "good@0123456789ab"])
    assert [text.split(";")[0].split(",")[0] for text in found] == [
        "toolchain old: needs Python 3.99",
        "no toolchain 'gone'",
        "TOOLCHAIN 'good@0123456789ab': the lock is another one",
    ]


def test_too_little_room_for_all_that_are_absent_is_a_problem(
    make: Make, cache: Path, are_installed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = [make("one", disk_gib=3).pin, make("two", disk_gib=4).pin, make("three", disk_gib=50).pin]
    are_installed.add("three")
    free = 7 * 2**30
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert preflight.problems(pins) == []
    free -= 1
    [told] = preflight.problems(pins)
    assert told.startswith(
        "disk: toolchains that are not installed yet (one, two) need about 7.0 GiB, but only 7.0 GiB"
    )
    assert str(cache) in told
