from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.workspace import calibration_set, document

from pipeline import calibration, store
from pipeline.calibration import MIN_TOKENS, CalibrationSettings
from pipeline.errors import UserError
from pipeline.tokenizer import Tokenizer

ROOT = Path(__file__).parents[2]
PLACE = "calibration/plain/samples.jsonl"


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tokenizer(tiny_checkpoint: Path) -> Tokenizer:
    return Tokenizer(tiny_checkpoint)


def settings(samples: int, **more: int) -> CalibrationSettings:
    return CalibrationSettings(set="plain", samples=samples, **more)


def short(number: int) -> dict[str, Any]:
    return {"id": f"short-{number}", "kind": "document", "text": "too short"}


def test_a_good_set_of_texts_and_chats_has_no_problems(workspace: Path) -> None:
    chat = {"id": "c", "kind": "chat", "messages": [{"role": "user", "content": "Hello"}]}
    calibration_set(workspace, [document(1), chat])
    assert calibration.set_problems("plain") == []
    assert calibration.texts("plain") == [document(1)["text"], "Hello"]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ({"kind": "document", "text": "x"}, "lacks a text 'id'"),
        ({"id": 3, "kind": "document", "text": "x"}, "lacks a text 'id'"),
        ({"id": "doc-1", "kind": "document", "text": "x"}, "id 'doc-1' was already used in line 1"),
        ({"id": "a", "kind": "poem", "text": "x"}, "kind 'poem' is not one of the card's kinds (chat, document)"),
        ({"id": "a", "text": "x"}, "kind None is not one of the card's kinds (chat, document)"),
        ({"id": "a", "kind": "document"}, "needs exactly one of 'text' and 'messages'"),
        (
            {"id": "a", "kind": "chat", "text": "x", "messages": [{"role": "user", "content": "x"}]},
            "needs exactly one of 'text' and 'messages'",
        ),
        ({"id": "a", "kind": "document", "text": "  "}, "'text' is empty"),
        ({"id": "a", "kind": "document", "text": 3}, "'text' is empty"),
        ("{", "not JSON (Expecting property name enclosed in double quotes at column 2)"),
        ([], "expected a JSON object, got list"),
    ],
)
def test_a_bad_sample_is_named_with_file_and_line(workspace: Path, bad: Any, problem: str) -> None:
    calibration_set(workspace, [document(1), bad])
    assert calibration.set_problems("plain") == [f"{PLACE}:2: {problem}"]


@pytest.mark.parametrize(
    "messages", [[], "hello", [{"role": "user"}], [{"role": "user", "content": " "}], [{"content": "x"}], ["hello"]]
)
def test_messages_must_have_roles_and_words(workspace: Path, messages: Any) -> None:
    calibration_set(workspace, [{"id": "a", "kind": "chat", "messages": messages}])
    [problem] = calibration.set_problems("plain")
    assert problem.startswith(f"{PLACE}:1: 'messages' must be a list")


def test_missing_and_empty_sets_are_told(workspace: Path) -> None:
    assert calibration.set_problems("plane") == ["calibration/plane: no such calibration set (there are: none)"]
    samples = calibration_set(workspace, [])
    assert calibration.set_problems("plane") == ["calibration/plane: no such calibration set (there are: plain)"]
    assert calibration.set_problems("plain") == [f"{PLACE}: empty; it needs at least one line"]
    samples.unlink()
    assert calibration.set_problems("plain") == [f"{PLACE}: missing"]


def test_a_mistake_in_the_card_is_told(workspace: Path) -> None:
    calibration_set(workspace, [document(1)], licens="x")
    assert calibration.set_problems("plain") == [
        "calibration/plain/card.yaml: licens: unknown key; did you mean 'licence'?"
    ]


def test_samples_are_cut_counted_and_kept_in_file_order(workspace: Path, tokenizer: Tokenizer) -> None:
    calibration_set(workspace, [document(1), short(1), document(2), short(2), document(3)])
    found = calibration.tokenize(settings(3, max_tokens=40), tokenizer)
    whole = [tokenizer.text(document(number)["text"]) for number in (1, 2, 3)]
    assert min(map(len, whole)) > 40
    assert found.token_ids == [ids[:40] for ids in whole]
    assert found.use.samples_total == 5
    assert found.use.samples_kept == 3
    assert found.use.samples_dropped == 2
    assert found.use.tokens == 120
    assert (found.use.set_name, found.use.set_version) == ("plain", "2.1.0")
    assert found.use.sha256 == store.sha256_json(found.token_ids)


def test_what_was_not_drawn_counts_as_dropped(workspace: Path, tokenizer: Tokenizer) -> None:
    calibration_set(workspace, [*(document(number) for number in range(6)), short(1)])
    use = calibration.tokenize(settings(4), tokenizer).use
    assert (use.samples_total, use.samples_kept, use.samples_dropped) == (7, 4, 3)


def test_a_sample_of_the_least_length_is_kept_and_one_token_less_is_not(workspace: Path, tokenizer: Tokenizer) -> None:
    text = " a" * 200
    ids = tokenizer.text(text)
    fits = tokenizer.decode(ids[:MIN_TOKENS])
    less = tokenizer.decode(ids[: MIN_TOKENS - 1])
    assert (len(tokenizer.text(fits)), len(tokenizer.text(less))) == (MIN_TOKENS, MIN_TOKENS - 1)
    rows = [{"id": str(n), "kind": "document", "text": words} for n, words in enumerate((fits, less))]
    calibration_set(workspace, rows)
    assert calibration.tokenize(settings(1), tokenizer).token_ids == [ids[:MIN_TOKENS]]


def test_chats_are_rendered_without_a_place_for_an_answer(workspace: Path, tokenizer: Tokenizer) -> None:
    messages = [{"role": "user", "content": "word " * 40}, {"role": "assistant", "content": "fine"}]
    calibration_set(workspace, [{"id": "a", "kind": "chat", "messages": messages}])
    [ids] = calibration.tokenize(settings(1), tokenizer).token_ids
    assert ids == tokenizer.chat(messages, add_generation_prompt=False)
    assert tokenizer.decode(ids).endswith("assistant\nfine\n")


def test_one_seed_draws_the_same_samples_and_others_draw_others(workspace: Path, tokenizer: Tokenizer) -> None:
    calibration_set(workspace, [document(number) for number in range(12)])
    drawn = [calibration.tokenize(settings(4, seed=seed), tokenizer) for seed in (0, 0, 1, 2)]
    assert drawn[0] == drawn[1]
    assert len({found.use.sha256 for found in drawn}) == 3
    order = [document(number)["text"] for number in range(12)]
    places = [order.index(tokenizer.decode(ids)) for ids in drawn[2].token_ids]
    assert places == sorted(set(places))


def test_too_few_usable_samples_are_told_with_both_numbers(workspace: Path, tokenizer: Tokenizer) -> None:
    calibration_set(workspace, [document(1), document(2), short(1)])
    assert len(calibration.tokenize(settings(2), tokenizer).token_ids) == 2
    with pytest.raises(UserError, match=r"'plain': 3 samples asked for, but only 2 of its 3 have at least 32 tokens"):
        calibration.tokenize(settings(3), tokenizer)


def test_a_faulty_set_is_not_tokenized(workspace: Path, tokenizer: Tokenizer) -> None:
    calibration_set(workspace, [document(1), document(1)])
    with pytest.raises(UserError, match="was already used in line 1"):
        calibration.tokenize(settings(1), tokenizer)


def test_the_shipped_set_is_good_and_large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert calibration.set_problems("general") == []
    texts = calibration.texts("general")
    assert len(texts) >= 64
    assert len(set(texts)) == len(texts)
    # At 1.5 tokens a word at least (0.75 words a token is usual), 16k tokens need about 11k words.
    assert sum(len(text.split()) for text in texts) > 11_000
    card = calibration.read_card("general")
    assert card.name == "general"
    assert all((card.version, card.licence, card.provenance, card.language))


def test_a_kind_that_is_no_text_is_told(workspace: Path) -> None:
    calibration_set(workspace, [{"id": "a", "kind": ["document"], "text": "x"}])
    assert calibration.set_problems("plain")[0].startswith(f"{PLACE}:1: ")


def test_an_unknown_key_of_a_sample_is_told(workspace: Path) -> None:
    calibration_set(workspace, [document(1) | {"max_token": 40}])
    assert calibration.set_problems("plain")


def test_a_card_with_the_name_of_another_folder_is_told(workspace: Path) -> None:
    calibration_set(workspace, [document(1)], name="general")
    assert calibration.set_problems("plain")


def test_an_empty_id_of_a_sample_is_told(workspace: Path) -> None:
    calibration_set(workspace, [document(1) | {"id": " "}])
    assert calibration.set_problems("plain")


@pytest.mark.parametrize(("samples", "max_tokens"), [(4, 512), (2, 512), (4, 100)])
def test_the_estimate_of_tokens_is_near_what_the_quantizer_gets(
    workspace: Path, tiny_checkpoint: Path, tokenizer: Tokenizer, samples: int, max_tokens: int
) -> None:
    """Of texts alike; short ones do not count, long ones are cut."""
    calibration_set(workspace, [short(0), *(document(number) for number in range(4)), short(1)])
    wanted = settings(samples, max_tokens=max_tokens)
    estimate = calibration.estimate_tokens(wanted, tiny_checkpoint)
    assert estimate == pytest.approx(calibration.tokenize(wanted, tokenizer).use.tokens, rel=0.02)


def test_without_a_tokenizer_as_many_tokens_as_the_settings_allow(workspace: Path) -> None:
    calibration_set(workspace, [document(0)])
    assert calibration.estimate_tokens(settings(3, max_tokens=100), workspace) == 300


def test_a_set_without_usable_texts_has_no_tokens(workspace: Path, tiny_checkpoint: Path) -> None:
    calibration_set(workspace, [short(0)])
    assert calibration.estimate_tokens(settings(1), tiny_checkpoint) == 0


@pytest.mark.parametrize(
    ("lengths", "count", "length"),
    [((5, 5, 5), 3, 5), ((5, 4, 3), 3, 4), ((7,), 1, 7), ((10, 1, 1, 1), 2, 6), ((3, 3, 1), 3, 2)],
)
def test_blocks_are_equally_long_and_lose_fewer_tokens_than_there_are_blocks(
    lengths: tuple[int, ...], count: int, length: int
) -> None:
    tokens = list(range(sum(lengths)))
    starts = [sum(lengths[:place]) for place in range(len(lengths))]
    found = calibration.equal_blocks(
        [tokens[start : start + size] for start, size in zip(starts, lengths, strict=True)]
    )
    assert [len(block) for block in found] == [length] * count
    assert length <= max(lengths)
    assert [token for block in found for token in block] == tokens[: count * length]
    assert len(tokens) - count * length < count
