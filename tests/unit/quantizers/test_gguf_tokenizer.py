"""A tokenizer.json in the words of GGUF; that llama.cpp then cuts texts alike is tested where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UserError
from pipeline.quantizers import _gguf_conversion, _gguf_tokenizer

gguf = pytest.importorskip("gguf")

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def tokenizer(pre: Any = BYTE_LEVEL, **model: Any) -> dict[str, Any]:
    return {
        "pre_tokenizer": pre,
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<s>": 2}, "merges": [], **model},
        "added_tokens": [
            {"id": 2, "content": "<s>", "special": True},
            {"id": 3, "content": "<tool>", "special": False},
        ],
    }


def split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {**BYTE_LEVEL, "use_regex": False},
        ],
    }


QWEN2 = (
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+"
)


@pytest.mark.parametrize(
    ("pre", "name"),
    [
        (BYTE_LEVEL, "gpt-2"),
        ({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]}, "smollm"),
        (split(QWEN2), "qwen2"),
        (split(QWEN2.replace("|\\p{N}|", "|\\p{N}{1,3}|")), "llama-bpe"),
        ({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": False}, BYTE_LEVEL]}, None),
        ({**BYTE_LEVEL, "add_prefix_space": True}, None),
        (split("other"), None),
        (None, None),
    ],
)
def test_pre_tokenizers_are_known_by_what_they_do(pre: Any, name: str | None) -> None:
    assert _gguf_tokenizer.pre_tokenizer(tokenizer(pre)) == name


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "tokenizer: the base model has no tokenizer.json"),
        (tokenizer(type="Unigram"), "tokenizer: Unigram is not converted"),
        (tokenizer(byte_fallback=True), "tokenizer: BPE with byte fallback (SentencePiece) is not converted"),
        (tokenizer(split("other")), "tokenizer: llama.cpp's name of this pre-tokenizer is not known here"),
    ],
)
def test_a_tokenizer_that_is_not_converted_is_refused_with_the_way_out(found: Any, words: str) -> None:
    [problem] = _gguf_tokenizer.problems(found)
    assert problem.startswith(words)
    assert "tokenizer: none" in problem
    assert _gguf_tokenizer.problems(tokenizer()) == []


def test_tokens_have_their_kind_and_output_rows_without_one_are_unused() -> None:
    texts, kinds = _gguf_tokenizer.tokens(tokenizer(), 5)
    assert list(zip(texts, kinds, strict=True)) == [
        ("a", "NORMAL"),
        ("b", "NORMAL"),
        ("<s>", "CONTROL"),
        ("<tool>", "USER_DEFINED"),
        ("[PAD4]", "UNUSED"),
    ]


def test_the_file_holds_the_tokenizer_and_the_chat_template(tiny_checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "floats.gguf"
    _gguf_tokenizer.require_known(tiny_checkpoint)
    _gguf_conversion.write(tiny_checkpoint, path, lambda writer: _gguf_tokenizer.add(writer, tiny_checkpoint))
    fields = gguf.GGUFReader(path).fields
    assert fields["tokenizer.ggml.model"].contents() == "gpt2"
    assert fields["tokenizer.ggml.pre"].contents() == "gpt-2"
    texts = fields["tokenizer.ggml.tokens"].contents()
    assert len(texts) == 512
    assert texts[:3] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert fields["tokenizer.ggml.eos_token_id"].contents() == 2
    assert "<|im_start|>assistant" in fields["tokenizer.chat_template"].contents()


def test_a_checkpoint_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        _gguf_tokenizer.require_known(tmp_path)
