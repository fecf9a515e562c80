from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline import fidelity_text, store
from pipeline.artifact_records import BaseModelInfo, FileInfo, Manifest
from pipeline.errors import UserError
from pipeline.quality_records import FidelityText


class Letters:
    """A tokenizer of which each letter is a token, that puts `start` before a text where it adds special tokens."""

    def __init__(self, *start: int) -> None:
        self._start = list(start)

    def rendered(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def opening(self, text: str) -> list[int]:
        return self._start + self.rendered(text)


def manifest(context: int = 100) -> Manifest:
    return Manifest(
        name="base",
        base=BaseModelInfo(name="x", source="x", revision="x", licence="x", provenance="x"),
        quantizer=None,
        settings={},
        packages={},
        format="safetensors",
        files={"x": FileInfo(bytes=1, sha256="0" * 64)},
        artifact_sha256="0" * 64,
        weight_bytes=1,
        parameters=1,
        bits_per_weight=8,
        quantized_modules=[],
        unquantized_modules=[],
        tokenizer_sha256="1" * 64,
        chat_template_sha256=None,
        context_length=context,
    )


TEXT = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "text.txt"
    found.write_text(TEXT)
    return found


def tokenize(path: Path, tokens: int, window: int, tokenizer: Any, context: int = 100) -> FidelityText:
    return fidelity_text.tokenize(str(path), tokens, window, tokenizer, manifest(context))


def shown(found: FidelityText) -> list[str]:
    """A window as text; `_` is BOS."""
    return ["".join("_" if token == 1 else chr(token) for token in window) for window in found.windows]


def test_windows_begin_anew_and_the_last_is_shorter(path: Path) -> None:
    found = tokenize(path, 22, 8, Letters())
    assert shown(found) == ["abcdefgh", "ijklmnop", "qrstuv"]
    assert (found.text, found.tokens, found.window_tokens) == (str(path), 22, 8)
    assert found.tokenizer_sha256 == "1" * 64
    assert found.text_sha256 == store.sha256_json(found.windows)


def test_each_window_has_one_bos_where_the_tokenizer_adds_one(path: Path) -> None:
    assert shown(tokenize(path, 22, 8, Letters(1))) == ["_abcdefg", "_hijklmn", "_opqrstu", "_v"]


def test_a_text_that_brings_its_own_bos_has_no_second_one(path: Path) -> None:
    path.write_text("\x01" + TEXT)
    assert shown(tokenize(path, 10, 8, Letters(1))) == ["_abcdefg", "_hij"]


def test_a_window_in_which_nothing_would_be_scored_is_left_out(path: Path) -> None:
    assert shown(tokenize(path, 17, 8, Letters())) == ["abcdefgh", "ijklmnop"]


def test_too_short_a_text_is_told_with_both_numbers(path: Path) -> None:
    assert len(tokenize(path, 26, 8, Letters(1)).windows) == 4
    with pytest.raises(UserError, match=rf"tokens is 27, but {path} has only 26 tokens; lengthen the text or lower"):
        tokenize(path, 27, 8, Letters(1))


def test_a_window_over_the_context_is_refused(path: Path) -> None:
    assert tokenize(path, 20, 8, Letters(), context=8).windows
    with pytest.raises(UserError, match=r"fidelity\.window_tokens: 8 exceeds the model's context of 7"):
        tokenize(path, 20, 8, Letters(), context=7)


def test_a_file_that_cannot_be_read_is_told(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"fidelity\.text: .* cannot be read as UTF-8 text"):
        tokenize(path, 20, 8, Letters())
    path.unlink()
    with pytest.raises(UserError, match="No such file"):
        tokenize(path, 20, 8, Letters())
