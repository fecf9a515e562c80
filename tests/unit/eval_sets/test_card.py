from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.workspace import CARD, ITEMS, eval_set

from pipeline import eval_sets
from pipeline.eval_sets import template as templates

PLACE = "eval_sets/colours/card.yaml"


def category(**changes: Any) -> dict[str, Any]:
    return {"categories": {"pick": CARD["categories"]["pick"] | changes}}


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        ({"name": "colors"}, "name is 'colors', but the folder is 'colours'; make them equal"),
        ({"licens": "x"}, "licens: unknown key; did you mean 'licence'?"),
        (category(scorer="choise"), "categories.pick.scorer: no scorer 'choise'; did you mean 'choice'?"),
        (
            category(max_new_tokens=0),
            "categories.pick.max_new_tokens: must be 1 or more, got 0",
        ),
        (category(weight=0), "categories.pick.weight: must be more than 0, got 0"),
        (category(target=["yes"]), "categories.pick.target: must be values by name, as in `name: value`, got ['yes']"),
        ({"categories": {}}, "categories: must have 1 or more entries, got {}"),
        ({"format": "chats"}, "format: must be 'chat' or 'text', got 'chats'"),
        ({"margin": 1}, "margin: must be less than 1, got 1"),
        ({"system": " "}, "system: is empty, got ' '"),
        (
            {"template": "Answer as {'a': 1}: {question}"},
            "template: {'a'} is no field name; write a brace that is meant as such twice: {{ or }}",
        ),
        (
            {"template": "{question!r}"},
            "template: {question} is no field name; write a brace that is meant as such twice: {{ or }}",
        ),
        (
            {"template": "{question"},
            "template: expected '}' before end of string; write a brace that is meant as such twice: {{ or }}",
        ),
        ({"few_shot": [{"prompt": "x"}]}, "few_shot.0.answer: missing"),
        ({"few_shot": [{"promt": "x", "answer": "y"}]}, "few_shot.0.promt: unknown key; did you mean 'prompt'?"),
        ({"few_shot": [{"answer": "y"}]}, "few_shot.0: needs exactly one of 'prompt' and 'fields'"),
        (
            {"few_shot": [{"fields": {"a": 1}, "answer": "y"}]},
            "few_shot.0: 'fields' fill a template, but card.yaml has none; give 'prompt' instead, or add a template",
        ),
        (
            {"template": "{question}", "few_shot": [{"fields": {"qestion": "x", "question": "x"}, "answer": "y"}]},
            "few_shot.0: fields: 'qestion' is not in the card's template; did you mean 'question'?",
        ),
    ],
)
def test_a_mistake_in_the_card_is_named_with_its_place(workspace: Path, card: dict[str, Any], problem: str) -> None:
    eval_set(workspace, **card)
    assert eval_sets.problems("colours") == [f"{PLACE}: {problem}"]


def test_a_version_that_yaml_takes_for_a_number_is_to_be_quoted(workspace: Path) -> None:
    path = eval_set(workspace).parent / "card.yaml"
    path.write_text(path.read_text().replace("version: 1.0.0", "version: 1.0"))
    assert eval_sets.problems("colours") == [f"{PLACE}: version: must be a text in quotes, got 1.0"]


def test_a_folder_without_a_card_is_told_how_to_get_one(workspace: Path) -> None:
    (eval_set(workspace).parent / "card.yaml").unlink()
    assert eval_sets.problems("colours") == [
        f"{PLACE}: missing; write one as docs/eval-sets.md shows, or take that of a set which `quantgate eval-set new "
        "NAME` begins"
    ]


def test_a_faulty_card_does_not_hide_mistakes_of_the_items(workspace: Path) -> None:
    lines = ["{", ITEMS[0] | {"prompt": ""}, ITEMS[1] | {"messages": []}, ITEMS[2] | {"category": "unknown"}]
    eval_set(workspace, lines, name="x")
    assert [problem.split(": ")[:2] for problem in eval_sets.problems("colours")] == [
        [PLACE, "name is 'x', but the folder is 'colours'; make them equal"],
        ["eval_sets/colours/items.jsonl:1", "not JSON (Expecting property name enclosed in double quotes at column 2)"],
        ["eval_sets/colours/items.jsonl:2", "prompt"],
        ["eval_sets/colours/items.jsonl:3", "messages"],
        [
            "eval_sets/colours/items.jsonl:3",
            "needs exactly one of 'prompt', 'messages' and 'fields', has 'prompt' and 'messages'",
        ],
    ]


def test_all_mistakes_of_a_card_come_at_once(workspace: Path) -> None:
    eval_set(workspace, few_shot=[{"answer": "y"}], name="x", **category(scorer="choise"))
    assert len(eval_sets.problems("colours")) == 3


def test_what_a_card_leaves_out_has_its_default(workspace: Path) -> None:
    eval_set(workspace)
    card = eval_sets.read_card("colours")
    assert (card.format, card.system, card.template, card.few_shot, card.margin) == ("chat", None, None, [], 0.05)
    assert (card.categories["pick"].weight, card.categories["pick"].target) == (1.0, {})


def test_a_bare_yes_or_no_is_a_text(workspace: Path) -> None:
    """YAML 1.1 reads them as true and false, so that the choices of a card would be no texts."""
    path = eval_set(workspace, ITEMS[:1]).parent / "card.yaml"
    path.write_text(
        path.read_text().replace("language: en", "language: no") + "    target: {choices: [yes, no]}\n",
        encoding="utf-8",
    )
    card = eval_sets.read_card("colours")
    assert card.language == "no"
    assert card.categories["fields"].target == {"choices": ["yes", "no"]}


def test_a_card_that_is_not_utf8_is_told(workspace: Path) -> None:
    items = eval_set(workspace)
    (items.parent / "card.yaml").write_bytes(b"name: caf\xe9")
    assert "UTF-8" in eval_sets.problems("colours")[0]


def test_braces_of_a_value_are_not_taken_for_names() -> None:
    assert templates.fill('{{"a": {x}}} {y}', {"x": "{y}", "y": 2}) == '{"a": {y}} 2'
    assert templates.names("{{no}} {x} {y} {x}") == {"x", "y"}
