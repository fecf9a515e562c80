from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.workspace import CARD, ITEMS, eval_set

from pipeline import eval_sets
from pipeline.eval_sets import duplicates

LONG = "the grey parcel from the mill at the river has been late since monday of last week and nobody calls back"


def asked(number: int, prompt: str, **changes: Any) -> dict[str, Any]:
    return ITEMS[1] | {"id": f"name-{number}", "prompt": prompt} | changes


def exact(folder: Path, *items: dict[str, Any], **card: Any) -> list[str]:
    eval_set(folder, items, **card)
    return list(duplicates.exact(eval_sets.read_card("colours"), eval_sets.read_items("colours")))


def near(folder: Path, *items: dict[str, Any]) -> list[tuple[str, str, float]]:
    eval_set(folder, items)
    pairs = duplicates.near(eval_sets.read_card("colours"), eval_sets.read_items("colours"))
    return [(pair.first, pair.second, pair.similarity) for pair in pairs]


def test_items_that_differ_in_case_and_punctuation_ask_the_same(workspace: Path) -> None:
    assert exact(workspace, asked(1, "Which colour?"), asked(2, "which  COLOUR"), asked(3, "What colour?")) == [
        "items name-1, name-2 ask the same; keep one"
    ]


def test_the_same_question_with_another_answer_is_a_contradiction(workspace: Path) -> None:
    [problem] = exact(workspace, asked(1, "Which?"), asked(2, "Which?", target={"any_of": ["blue"]}))
    assert problem == "items name-1, name-2 ask the same, with different targets; keep one"


def test_the_same_words_with_other_choices_are_another_question(workspace: Path) -> None:
    categories = {"name": CARD["categories"]["name"] | {"scorer": "multiple_choice"}}
    choices = [{"choices": ["a", "b"], "answer": "a"}, {"choices": ["c", "d"], "answer": "c"}]
    items = [asked(n, "Which is right?", target=target) for n, target in enumerate(choices)]
    assert exact(workspace, *items, categories=categories) == []


def test_the_same_question_on_another_document_is_another_question(workspace: Path) -> None:
    items = [
        ITEMS[1] | {"id": f"name-{n}", "prompt": None, "fields": {"question": "Which?"}, "document": name}
        for n, name in enumerate(["lease", "manual", "lease"])
    ]
    documents = workspace / "eval_sets" / "colours" / "documents"
    documents.mkdir(parents=True)
    for name in ("lease", "manual"):
        (documents / f"{name}.txt").write_text(name)
    assert exact(workspace, *items, template="{document} {question}") == ["items name-0, name-2 ask the same; keep one"]


def test_the_same_last_message_after_another_conversation_is_another_question(workspace: Path) -> None:
    def turns(first: str) -> dict[str, Any]:
        roles = [("user", first), ("assistant", "ok"), ("user", "Which?")]
        return {"prompt": None, "messages": [{"role": role, "content": content} for role, content in roles]}

    assert exact(workspace, asked(1, "") | turns("a"), asked(2, "") | turns("b")) == []
    assert len(exact(workspace, asked(1, "") | turns("a"), asked(2, "") | turns("a"))) == 1


def test_likeness_is_the_share_of_common_runs_of_three_words(workspace: Path) -> None:
    """21 words have 19 runs of three. The last word changed: 18 in common of 20."""
    [(first, second, similarity)] = near(workspace, asked(1, LONG), asked(2, LONG.replace("back", "me")))
    assert (first, second) == ("name-1", "name-2")
    assert similarity == pytest.approx(18 / 20)


def test_chinese_text_is_compared_by_its_characters(workspace: Path) -> None:
    text = "我上周买的炒锅还没有收到请帮我查一下现在到了哪里谢谢"
    assert len(near(workspace, asked(1, text), asked(2, text.replace("谢谢", "多谢")))) == 1
    assert near(workspace, asked(1, text), asked(2, "顾客想知道怎样把发票寄到公司的新地址并且更改抬头")) == []


def test_texts_with_a_few_words_in_common_are_not_near(workspace: Path) -> None:
    assert near(workspace, asked(1, LONG), asked(2, "the grey parcel from the mill is here and all is well now")) == []


def test_wording_that_much_of_the_set_shares_says_nothing(workspace: Path) -> None:
    task = "what does the customer want to know from us today choose one of the topics below and answer briefly"
    items = [asked(n, f"{task} number{n} about{n}") for n in range(30)]
    assert near(workspace, *items) == []
    assert len(near(workspace, *items[:2])) == 1


def test_items_of_one_group_are_alike_on_purpose(workspace: Path) -> None:
    other = LONG.replace("back", "me")
    assert near(workspace, asked(1, LONG, group="g"), asked(2, other, group="g")) == []
    assert len(near(workspace, asked(1, LONG, group="g"), asked(2, other, group="h"))) == 1
    assert len(near(workspace, asked(1, LONG), asked(2, other))) == 1


def test_equal_items_are_not_told_as_near_too(workspace: Path) -> None:
    assert near(workspace, asked(1, LONG), asked(2, LONG.upper())) == []
