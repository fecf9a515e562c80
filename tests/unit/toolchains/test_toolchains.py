from __future__ import annotations

import hashlib

import pytest
import yaml
from unit.toolchains.conftest import DESCRIPTION, Make

from pipeline import toolchains
from pipeline.errors import UserError


def test_every_folder_with_a_description_is_a_toolchain(make: Make) -> None:
    make("second")
    make("first", purpose="to be first")
    (toolchains.FOLDER / "no-toolchain").mkdir()
    assert toolchains.names() == ["first", "second"]
    assert toolchains.load("first").description.purpose == "to be first"


def test_an_unknown_name_suggests_the_nearest(make: Make) -> None:
    make("archived")
    with pytest.raises(UserError, match="no toolchain 'archive'; did you mean 'archived'"):
        toolchains.load("archive")


def test_every_mistake_in_a_description_is_told_with_its_place(make: Make) -> None:
    make()
    path = toolchains.FOLDER / "tiny" / "toolchain.yaml"
    path.write_text(yaml.safe_dump(DESCRIPTION | {"python": ["3.10", 3.11], "disk_gib": 0, "purpse": "x"}))
    with pytest.raises(UserError) as caught:
        toolchains.load("tiny")
    told = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 4
    assert f"{path}: python.0: must match the pattern" in told
    assert "python.1: must be a text in quotes, got 3.11" in told
    assert "disk_gib: must be more than 0, got 0" in told
    assert "purpse: unknown key; did you mean 'purpose'?" in told


def test_a_pin_is_the_name_and_the_first_digits_of_the_locks_hash(make: Make) -> None:
    toolchain = make(lock="a==1\n")
    assert toolchain.pin == f"tiny@{hashlib.sha256(b'a==1' + bytes([10])).hexdigest()[:12]}"
    assert toolchains.pinned(toolchain.pin) == toolchain


@pytest.mark.parametrize("pin", ["tiny", "tiny@", "tiny@0123456789ab"])
def test_a_pin_of_another_lock_is_refused_with_what_to_do(make: Make, pin: str) -> None:
    toolchain = make(lock="a==1\n")
    with pytest.raises(UserError) as caught:
        toolchains.pinned(pin)
    assert str(caught.value) == (
        f"TOOLCHAIN {pin!r}: the lock is another one, {toolchain.pin!r}; `quantgate toolchain lock tiny` renews both"
    )


def test_a_toolchain_without_a_lock_says_how_to_write_it(make: Make) -> None:
    toolchain = make()
    toolchain.lock.unlink()
    with pytest.raises(UserError, match=r"requirements\.lock: missing; `quantgate toolchain lock tiny` writes it"):
        toolchains.pinned("tiny@0123456789ab")
