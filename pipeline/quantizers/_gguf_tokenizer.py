"""The checkpoint's byte-level BPE tokenizer in the words of GGUF, and the proof that llama.cpp reads it alike.

The engine that measures the file takes token ids and needs none of this; whoever serves the file does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline import checkpoint, store
from pipeline.errors import UserError

_LEFT_OUT = frozenset({"trim_offsets"})
"""Values of a pre-tokenizer that do not change its tokens."""


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "use_regex": use_regex}


def _split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            _byte_level(use_regex=False),
        ],
    }


PRE_TOKENIZERS: Mapping[str, dict[str, Any]] = {
    "gpt-2": _byte_level(use_regex=True),
    "smollm": {
        "type": "Sequence",
        "pretokenizers": [{"type": "Digits", "individual_digits": True}, _byte_level(use_regex=True)],
    },
    "llama-bpe": _split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "qwen2": _split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
"""llama.cpp's name (src/llama-vocab.cpp) → the `pre_tokenizer` of tokenizer.json that it stands for."""

SAMPLES = (
    "The quick brown fox doesn't jump 3 times; it's 12345 or 1,234.5 – we've counted, THEY'LL see.",
    "def f(x):\n    return {'a': [x**2, -1e-5]}  # tabs\tand   spaces   \n\n\n\ttail ",
    "Grüße aus Zürich! Ça va? Это проверка 2024 года. 快速的棕色狐狸，跳过了懒狗。한국어 テスト हिन्दी العربية",
    "🚀 (multiple 👩‍🔬 emojis) ✅ …“quoted” ‘single’ 3.14159265358979 ½ x²",
    "",
    " leading",
)
"""Texts that both tokenizers must cut alike: contractions, numbers of many lengths, runs of spaces, scripts, emoji."""


def pre_tokenizer(tokenizer: Mapping[str, Any]) -> str | None:
    """llama.cpp's name of the `pre_tokenizer` in a tokenizer.json; None when it has none that is known here."""
    wanted = _plain(tokenizer.get("pre_tokenizer"))
    return next((name for name, known in PRE_TOKENIZERS.items() if known == wanted), None)


def problems(tokenizer: Mapping[str, Any] | None) -> list[str]:
    """Why this tokenizer.json cannot be written into a GGUF file; None stands for a checkpoint without one."""
    hint = "set tokenizer: none to make a file without one, which is measured all the same but not served alone"
    if tokenizer is None:
        return [f"tokenizer: the base model has no tokenizer.json; {hint}"]
    model = tokenizer["model"]
    if model.get("type") != "BPE" or model.get("byte_fallback"):
        kind = "BPE with byte fallback (SentencePiece)" if model.get("byte_fallback") else model.get("type")
        return [f"tokenizer: {kind} is not converted, only byte-level BPE is; {hint}"]
    if pre_tokenizer(tokenizer) is None:
        return [
            "tokenizer: llama.cpp's name of this pre-tokenizer is not known here; known are "
            f"{', '.join(PRE_TOKENIZERS)}; {hint}"
        ]
    return []


def require_known(base: Path) -> None:
    """Raises UserError when the checkpoint's tokenizer cannot be written into a GGUF file."""
    found = problems(read(base))
    if found:
        raise UserError(found)


def read(base: Path) -> dict[str, Any] | None:
    """tokenizer.json of a checkpoint, None where it has none."""
    path = base / "tokenizer.json"
    return store.read_json(path) if path.is_file() else None


def add(writer: Any, base: Path) -> None:
    """Add tokens, merges, special tokens and chat template to a `gguf.GGUFWriter`; `problems` must be none."""
    import gguf

    tokenizer = read(base)
    assert tokenizer is not None
    texts, kinds = tokens(tokenizer, checkpoint.config(base)["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer(tokenizer))
    writer.add_token_list(texts)
    writer.add_token_types([gguf.TokenType[kind] for kind in kinds])
    gguf.SpecialVocab(base, load_merges=True).add_to_gguf(writer, quiet=True)


def add_none(writer: Any) -> None:
    """Say that the file holds no tokenizer."""
    writer.add_tokenizer_model("none")


def tokens(tokenizer: Mapping[str, Any], rows: int) -> tuple[list[str], list[str]]:
    """Text and kind (member of `gguf.TokenType`) of each of the model's `rows` tokens.

    Output rows that no token stands for are named `[PAD…]` and marked as unused, as llama.cpp's own converter does.
    """
    texts = [f"[PAD{number}]" for number in range(rows)]
    kinds = ["UNUSED"] * rows
    for text, number in tokenizer["model"]["vocab"].items():
        texts[number], kinds[number] = text, "NORMAL"
    for added in tokenizer.get("added_tokens", []):
        number = added["id"]
        texts[number], kinds[number] = added["content"], "CONTROL" if added["special"] else "USER_DEFINED"
    return texts, kinds


def differences(path: Path, base: Path) -> list[str]:
    """The samples that llama.cpp, reading the GGUF file, cuts into other tokens than the checkpoint's tokenizer.

    Raises:
        RuntimeError: llama.cpp cannot read the file.
    """
    import llama_cpp
    from tokenizers import Tokenizer

    theirs = Tokenizer.from_file(str(base / "tokenizer.json"))
    options = llama_cpp.llama_model_default_params()
    options.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
    if not model:
        raise RuntimeError(f"llama.cpp cannot read the vocabulary of {path}; its words stand above in the log")
    try:
        vocabulary = llama_cpp.llama_model_get_vocab(model)
        return [
            text
            for text in SAMPLES
            if _tokenized(vocabulary, text) != theirs.encode(text, add_special_tokens=False).ids
        ]
    finally:
        llama_cpp.llama_model_free(model)


def require_alike(path: Path, base: Path) -> None:
    """Raises UserError that names a text which llama.cpp would cut otherwise than the base's tokenizer."""
    found = differences(path, base)
    if found:
        raise UserError(
            f"tokenizer: llama.cpp cuts {len(found)} of {len(SAMPLES)} sample texts into other tokens than the base's "
            f"tokenizer, such as {found[0]!r}; set tokenizer: none to make a file without one"
        )


def _tokenized(vocabulary: Any, text: str) -> list[int]:
    import llama_cpp

    raw = text.encode()
    room = (llama_cpp.llama_token * (len(raw) + 8))()
    count = llama_cpp.llama_tokenize(vocabulary, raw, len(raw), room, len(room), False, True)
    return list(room[:count])


def _plain(value: Any) -> Any:
    """A pre-tokenizer without the values that change nothing."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if key not in _LEFT_OUT}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    return value
