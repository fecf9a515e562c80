"""Calibration sets: `calibration/<name>/card.yaml` and `samples.jsonl`, chosen and tokenized for a quantizer."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline import jsonl, store
from pipeline.artifact_records import CalibrationUse
from pipeline.errors import UserError, nearest
from pipeline.tokenizer import Tokenizer
from pipeline.yaml_files import read_yaml, section_problems

MIN_TOKENS = 32
"""Shorter samples are dropped: GPTQModel itself drops those under 10 tokens without counting them."""


SAMPLE_KEYS = {"id", "kind", "text", "messages"}


class CalibrationSettings(BaseModel):
    """How much of which set a variant is calibrated on."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    set: str
    samples: int = Field(ge=1)
    max_tokens: int = Field(default=512, ge=MIN_TOKENS)
    """Longer samples are cut to this length."""
    seed: int = 0
    """Decides which samples are taken when the set has more than `samples`."""


class Card(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    language: str
    licence: str
    provenance: str
    description: str
    kinds: dict[str, str]


@dataclass(frozen=True)
class CalibrationTokens:
    token_ids: list[list[int]]
    """One list per sample, at most `max_tokens` long."""
    use: CalibrationUse


def folder(name: str) -> Path:
    return store.CALIBRATION / name


def read_card(name: str) -> Card:
    path = folder(name) / "card.yaml"
    raw = read_yaml(path)
    found = [f"{path}: {problem}" for problem in section_problems(Card, raw)]
    jsonl.require(path, found)
    card = Card.model_validate(raw)
    if card.name != name:
        raise UserError(f"{path}: name is {card.name!r}, but the folder is {name!r}; make them equal")
    return card


def set_problems(name: str) -> list[str]:
    """Every mistake in a calibration set, with line numbers."""
    if not folder(name).is_dir():
        have = ", ".join(sorted(path.name for path in store.CALIBRATION.glob("*") if path.is_dir())) or "none"
        return [f"{folder(name)}: no such calibration set (there are: {have})"]
    try:
        kinds = read_card(name).kinds
    except UserError as error:
        return list(error.problems)
    return jsonl.problems(folder(name) / "samples.jsonl", lambda row: _sample_problems(row, kinds))


def texts(name: str) -> list[str]:
    """Each sample of a set as one plain text, for overlap checks."""
    rows = jsonl.read(folder(name) / "samples.jsonl")
    return [row["text"] if "text" in row else "\n".join(m["content"] for m in row["messages"]) for row in rows]


def tokenize(settings: CalibrationSettings, tokenizer: Tokenizer) -> CalibrationTokens:
    """Choose, render and tokenize the samples of a variant.

    Samples under `MIN_TOKENS` are dropped; of the rest, `samples` are drawn with `seed` and kept in file order.

    Raises:
        UserError: the set is faulty, or has fewer usable samples than asked for.
    """
    jsonl.require(folder(settings.set), set_problems(settings.set))
    rows = jsonl.read(folder(settings.set) / "samples.jsonl")
    rendered = [_render(row, tokenizer)[: settings.max_tokens] for row in rows]
    usable = [ids for ids in rendered if len(ids) >= MIN_TOKENS]
    if len(usable) < settings.samples:
        raise UserError(
            f"calibration set {settings.set!r}: {settings.samples} samples asked for, but only {len(usable)} of its "
            f"{len(rows)} have at least {MIN_TOKENS} tokens; lower calibration.samples or add texts"
        )
    chosen = sorted(random.Random(settings.seed).sample(range(len(usable)), settings.samples))
    kept = [usable[index] for index in chosen]
    use = CalibrationUse(
        set_name=settings.set,
        set_version=read_card(settings.set).version,
        sha256=store.sha256_json(kept),
        samples_total=len(rows),
        samples_kept=len(kept),
        samples_dropped=len(rows) - len(kept),
        tokens=sum(map(len, kept)),
    )
    return CalibrationTokens(token_ids=kept, use=use)


def equal_blocks(samples: Sequence[Sequence[int]]) -> list[list[int]]:
    """The tokens of all samples, one after the other, in equally long blocks, none longer than the longest sample.

    For libraries that leave out samples of differing lengths. Fewer tokens are left over than there are blocks.
    """
    tokens = list(itertools.chain.from_iterable(samples))
    count = math.ceil(len(tokens) / max(map(len, samples)))
    length = len(tokens) // count
    return [tokens[start : start + length] for start in range(0, count * length, length)]


def estimate_tokens(settings: CalibrationSettings, folder: Path) -> int:
    """About how many tokens `tokenize` will give, without importing transformers.

    The mean over the usable samples, times those asked for; what a chat template adds is left out. Counted by the
    tokenizer.json in `folder`; where there is none, as many as the settings allow.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        return settings.samples * settings.max_tokens
    usable = [min(length, settings.max_tokens) for length in _lengths(settings.set, path) if length >= MIN_TOKENS]
    return round(settings.samples * sum(usable) / len(usable)) if usable else 0


def too_short(name: str, base: Path) -> int:
    """How many samples of a set `tokenize` cannot use, by the tokenizer.json in `base`; 0 where there is none.

    Plain texts alone: a chat template makes the others longer than can be told here.
    """
    path = base / "tokenizer.json"
    if not path.is_file():
        return 0
    rows = jsonl.read(folder(name) / "samples.jsonl")
    return sum("text" in row and length < MIN_TOKENS for row, length in zip(rows, _lengths(name, path), strict=True))


def _lengths(name: str, tokenizer: Path) -> list[int]:
    """Tokens of each sample's text, uncut."""
    from tokenizers import Tokenizer as RustTokenizer

    return [len(encoding.ids) for encoding in RustTokenizer.from_file(str(tokenizer)).encode_batch(texts(name))]


def _render(row: dict[str, Any], tokenizer: Tokenizer) -> list[int]:
    if "text" in row:
        return tokenizer.text(row["text"])
    return tokenizer.chat(row["messages"], add_generation_prompt=False)


def _sample_problems(row: dict[str, Any], kinds: dict[str, str]) -> list[str]:
    found = [f"unknown key {key!r}; {nearest(key, sorted(SAMPLE_KEYS))}" for key in row.keys() - SAMPLE_KEYS]
    if not (isinstance(row.get("id"), str) and row["id"].strip()):
        found.append("lacks a text 'id'")
    if not (isinstance(row.get("kind"), str) and row["kind"] in kinds):
        found.append(f"kind {row.get('kind')!r} is not one of the card's kinds ({', '.join(sorted(kinds))})")
    if ("text" in row) == ("messages" in row):
        found.append("needs exactly one of 'text' and 'messages'")
    elif "text" in row and not (isinstance(row["text"], str) and row["text"].strip()):
        found.append("'text' is empty")
    elif "messages" in row and not _are_messages(row["messages"]):
        found.append('\'messages\' must be a list of {"role": …, "content": …} with non-empty texts')
    return found


def _are_messages(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(message, dict)
            and isinstance(message.get("role"), str)
            and isinstance(message.get("content"), str)
            and message["content"].strip()
            for message in value
        )
    )
