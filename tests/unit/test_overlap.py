from __future__ import annotations

from pathlib import Path

import pytest
from unit.workspace import ITEMS, calibration_set, document, eval_set

from pipeline import overlap

CHINESE = "请问我上周买的炒锅什么时候能够送到"
"""17 characters, which are two runs of 16."""


def test_a_run_is_eight_words_without_case_and_punctuation() -> None:
    words = list("abcdefghi")
    assert list(overlap.runs("A b, c d-e (f) g H i.")) == [tuple(words[:8]), tuple(words[1:])]
    assert list(overlap.runs("a b c d e f g")) == []


def test_in_chinese_a_run_is_sixteen_characters() -> None:
    assert ["".join(run) for run in overlap.runs(CHINESE)] == [CHINESE[:16], CHINESE[1:]]
    assert list(overlap.runs(CHINESE[:15])) == []


def test_in_mixed_text_two_characters_count_as_one_word() -> None:
    run, *more = overlap.runs("我的 order number 4711 还没有到 please help me")
    assert run == ("我", "的", "order", "number", "4711", "还", "没", "有", "到", "please", "help")
    # From 的 on, and from "order" on, it takes one word more.
    assert [(units[0], units[-1]) for units in more] == [("的", "me"), ("order", "me")]


def test_a_run_is_shown_as_its_script_writes_it() -> None:
    assert overlap.shown(("我", "的", "order", "number", "还", "没")) == "我的 order number 还没"


@pytest.mark.parametrize(
    ("sample", "prompt", "shared"),
    [
        ("x a b c d e f g h y", "Q: a  b c\nd e f g H yes", "a b c d e f g h"),
        (f"客服：{CHINESE}？", f"{CHINESE[:8]}，{CHINESE[8:]}", CHINESE[:16]),
    ],
)
def test_an_eval_item_that_calibration_has_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: str, prompt: str, shared: str
) -> None:
    monkeypatch.chdir(tmp_path)
    calibration_set(tmp_path, [document(1), {"id": "s", "kind": "document", "text": sample}])
    eval_set(tmp_path, [ITEMS[0], ITEMS[1] | {"prompt": prompt}])
    assert list(overlap.leaks("plain", ["colours"])) == [
        f"eval set colours, item name-1: {shared!r} (8 words in a row, or 16 characters of Chinese, Japanese or "
        "Korean) stands in calibration set plain too; change one of them"
    ]


@pytest.mark.parametrize("prompt", ["a b c d e f g x h", "a b c d e f g", "h g f e d c b a"])
def test_fewer_words_or_another_order_are_no_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompt: str
) -> None:
    monkeypatch.chdir(tmp_path)
    calibration_set(tmp_path, [{"id": "s", "kind": "document", "text": "x a b c d e f g h y"}])
    eval_set(tmp_path, [ITEMS[1] | {"prompt": prompt}])
    assert list(overlap.leaks("plain", ["colours"])) == []


def test_documents_and_all_turns_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "a b c d e f g h"
    calibration_set(tmp_path, [{"id": "s", "kind": "document", "text": text}])
    turns = [("user", text), ("assistant", "ok"), ("user", "?")]
    messages = [{"role": role, "content": content} for role, content in turns]
    items = [
        ITEMS[1] | {"id": "name-1", "prompt": None, "messages": messages},
        ITEMS[1] | {"id": "name-2", "prompt": None, "fields": {"q": "?"}, "document": "d"},
    ]
    documents = tmp_path / "eval_sets" / "colours" / "documents"
    documents.mkdir(parents=True)
    (documents / "d.txt").write_text(text)
    eval_set(tmp_path, items, template="{document} {q}")
    assert [problem.split(":")[0] for problem in overlap.leaks("plain", ["colours"])] == [
        "eval set colours, item name-1",
        "eval set colours, item name-2",
    ]


def test_what_calibration_has_in_a_chat_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    messages = [{"role": "user", "content": "a b c d e f g h"}]
    calibration_set(tmp_path, [{"id": "c", "kind": "chat", "messages": messages}])
    eval_set(tmp_path, [ITEMS[1] | {"prompt": "a b c d e f g h"}])
    assert len(list(overlap.leaks("plain", ["colours"]))) == 1
