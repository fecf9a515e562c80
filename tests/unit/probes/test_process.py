from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.probes import process
from pipeline.records import known, missing

MIB = 2**20
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def peak() -> float:
    found = process.peak_bytes()
    assert found.value is not None
    return found.value


@linux_only
def test_the_peak_rises_with_memory_stays_when_it_is_freed_and_falls_on_reset() -> None:
    if not process.reset_peak():
        pytest.skip("this system does not let the peak be reset")
    before = peak()
    block = bytearray(200 * MIB)
    block[::4096] = b"x" * len(block[::4096])
    with_block = peak()
    assert with_block - before > 190 * MIB
    del block
    assert peak() > with_block - 10 * MIB  # the kernel counts in batches per core
    assert process.reset_peak()
    assert with_block - peak() > 150 * MIB


@linux_only
def test_this_process_knows_its_swap() -> None:
    found = process.swapped_bytes()
    assert found.value is not None or found == missing(process.NO_SWAP)


def test_swap_is_read_in_bytes_and_is_missing_where_it_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = tmp_path / "status"
    monkeypatch.setattr(process, "STATUS", status)
    assert process.swapped_bytes() == missing(process.NO_SWAP)
    status.write_text("VmHWM:\t   33628 kB\n")
    assert process.swapped_bytes() == missing(process.NO_SWAP)
    status.write_text("VmHWM:\t   33628 kB\nVmSwap:\t     100 kB\n")
    assert process.swapped_bytes() == known(102_400)
    status.write_text("VmSwap:\t       0 kB\n")
    assert process.swapped_bytes() == known(0)


def test_kilobytes_are_given_as_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t  999999 kB\nVmHWM:\t   33628 kB\nVmRSS:\t   20000 kB\n")
    monkeypatch.setattr(process, "STATUS", status)
    assert process.peak_bytes() == known(33628 * 1024)


@pytest.mark.parametrize("content", [None, "Name:\tpython\n"])
def test_other_systems_have_no_peak_but_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    status = tmp_path / "status"
    if content is not None:
        status.write_text(content)
    monkeypatch.setattr(process, "STATUS", status)
    assert process.peak_bytes() == missing(process.NOT_LINUX)


def test_a_reset_that_is_not_allowed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "CLEAR_REFS", tmp_path / "no" / "such")
    assert process.reset_peak() is False
    monkeypatch.setattr(process, "CLEAR_REFS", tmp_path / "clear_refs")
    assert process.reset_peak() is True
    assert (tmp_path / "clear_refs").read_text() == "5"
