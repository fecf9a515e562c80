from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from unit.workspace import ITEMS, eval_set

from pipeline import eval_sets
from pipeline.errors import UserError

ROOT = Path(__file__).parents[3]
PLACE = "eval_sets/colours/items.jsonl"
TEMPLATE = "{document}\n\nQuestion: {question}"


def item(**changes: Any) -> dict[str, Any]:
    """A good item with changes; a value of None takes the key away."""
    return {key: value for key, value in (ITEMS[1] | changes).items() if value is not None}


def document(folder: Path, name: str = "lease", content: str | bytes = "The car is red.\n") -> None:
    path = folder / "eval_sets" / "colours" / "documents" / f"{name}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_a_good_set_has_no_problems_and_is_read_in_file_order(workspace: Path) -> None:
    eval_set(workspace)
    assert eval_sets.problems("colours") == []
    items = eval_sets.read_items("colours")
    assert [(found.id, found.critical, found.cluster) for found in items] == [
        ("pick-1", False, None),
        ("name-1", False, None),
        ("shape-1", True, None),
        ("fields-1", False, None),
    ]
    assert items[0].target == ITEMS[0]["target"]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (item(id=None), "id: missing"),
        (item(category=None), "category: missing"),
        (item(prompt=None), "needs exactly one of 'prompt', 'messages' and 'fields', has none"),
        (
            item(messages=[{"role": "user", "content": "x"}]),
            "needs exactly one of 'prompt', 'messages' and 'fields', has 'prompt' and 'messages'",
        ),
        (item(target=None), "lacks 'target'"),
        (item(prompt=""), "prompt: is empty, got ''"),
        (item(prompt=" \n"), "prompt: is empty, got ' \\n'"),
        (item(id=""), "id: is empty, got ''"),
        (item(id=7), "id: must be a text in quotes, got 7"),
        (item(prompt=["x"]), "prompt: must be a text, got ['x']"),
        (item(category=["name"]), "category: must be a text, got ['name']"),
        (item(critical="yes"), "critical: must be true or false, got 'yes'"),
        (item(group=""), "group: is empty, got ''"),
        (item(critcal=True), "critcal: unknown key; did you mean 'critical'?"),
        (item(category="nam"), "category 'nam' is not in card.yaml; did you mean 'name'?"),
        (item(id="pick-1"), "id 'pick-1' was already used in line 1"),
        (item(target="red"), 'target must be {"any_of": […]} with at least one text'),
        (item(category="shape"), 'target must be {"pattern": "…"}'),
        ("{", "not JSON (Expecting property name enclosed in double quotes at column 2)"),
        ([1], "expected a JSON object, got list"),
    ],
)
def test_a_bad_item_is_named_with_file_and_line(workspace: Path, bad: Any, problem: str) -> None:
    eval_set(workspace, [ITEMS[0], "", bad])
    assert eval_sets.problems("colours") == [f"{PLACE}:3: {problem}"]
    with pytest.raises(UserError):
        eval_sets.read_items("colours")


def user(content: str = "x") -> dict[str, str]:
    return {"role": "user", "content": content}


SYSTEM = {"role": "system", "content": "s"}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "messages: must have 1 or more entries, got []"),
        (
            [{"role": "boss", "content": "x"}, user()],
            "messages.0.role: must be 'system', 'user' or 'assistant', got 'boss'",
        ),
        ([user() | {"contnt": "x"}], "messages.0.contnt: unknown key; did you mean 'content'?"),
        ([user(" ")], "messages.0.content: is empty, got ' '"),
        ([user(), {"role": "assistant", "content": "x"}], "messages: the last one must be from the user"),
        ([user(), SYSTEM, user()], "messages: only the first one may be from the system"),
        ([SYSTEM, user()], "messages: has a system message, and card.yaml has one for all items; keep one of them"),
    ],
)
def test_a_bad_conversation_is_told(workspace: Path, messages: Any, problem: str) -> None:
    eval_set(workspace, [item(prompt=None, messages=messages)], system="Be brief.")
    assert eval_sets.problems("colours") == [f"{PLACE}:1: {problem}"]


def test_a_conversation_needs_the_chat_format(workspace: Path) -> None:
    eval_set(workspace, [item(prompt=None, messages=[user()])], format="text")
    assert eval_sets.problems("colours") == [
        f"{PLACE}:1: messages: card.yaml says format: text, which has no turns; give 'prompt' instead"
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"fields": {}}, "fields: lacks 'question', which the card's template names"),
        (
            {"fields": {"question": "?", "qestion": "?"}},
            "fields: 'qestion' is not in the card's template; did you mean 'question'?",
        ),
        (
            {"fields": {"question": True}},
            "fields: 'question' must be a text or a number, got {'question': True}",
        ),
        ({"document": "leas"}, "document 'leas': no file documents/leas.txt; did you mean 'lease'?"),
        ({"group": "g"}, "'document' and 'group' both say which items belong together; keep one"),
        ({"document": None}, "fields: lacks 'document', which the card's template names"),
    ],
)
def test_fields_must_fit_the_template(workspace: Path, changes: dict[str, Any], problem: str) -> None:
    good: dict[str, Any] = {"prompt": None, "fields": {"question": "Which colour?"}, "document": "lease"}
    eval_set(workspace, [item(**good)], template=TEMPLATE)
    document(workspace)
    assert eval_sets.problems("colours") == []
    eval_set(workspace, [item(**(good | changes))], template=TEMPLATE)
    assert eval_sets.problems("colours") == [f"{PLACE}:1: {problem}"]


def test_fields_without_a_template_are_told(workspace: Path) -> None:
    eval_set(workspace, [item(prompt=None, fields={"question": "?"})])
    [problem] = eval_sets.problems("colours")
    assert problem.startswith(f"{PLACE}:1: 'fields' fill a template, but card.yaml has none")


@pytest.mark.parametrize("template", [None, "{question}"])
def test_a_document_that_the_model_would_not_see_is_a_mistake(workspace: Path, template: str | None) -> None:
    asked = {"prompt": None, "fields": {"question": "?"}} if template else {}
    eval_set(workspace, [item(document="lease", **asked)], template=template)
    document(workspace)
    [problem] = eval_sets.problems("colours")
    assert "'document' is not shown to the model" in problem


@pytest.mark.parametrize(("content", "problem"), [(" \n", "empty"), (b"caf\xe9", "not UTF-8")])
def test_a_document_that_cannot_be_shown_is_told(workspace: Path, content: str | bytes, problem: str) -> None:
    eval_set(workspace)
    document(workspace, content=content)
    [found] = eval_sets.problems("colours")
    assert found.startswith(f"eval_sets/colours/documents/lease.txt: {problem}")


def test_documents_are_read_without_white_space_around_them(workspace: Path) -> None:
    eval_set(workspace)
    document(workspace, content="\n one \n two\n\n")
    assert eval_sets.read_documents("colours") == {"lease": "one \n two"}


def test_the_target_of_an_item_stands_over_that_of_its_category(workspace: Path) -> None:
    categories = {
        "pick": {
            "scorer": "choice",
            "max_new_tokens": 4,
            "description": "one of two",
            "target": {"choices": ["yes", "no"], "answer": "no"},
        }
    }
    rows = [
        item(id=f"pick-{n}", category="pick", target=target) for n, target in enumerate([{"answer": "yes"}, {}, None])
    ]
    rows.append(item(id="pick-3", category="pick", target={"choices": ["yes", "maybe"], "answer": "maybe"}))
    eval_set(workspace, rows, categories=categories)
    assert [found.target for found in eval_sets.read_items("colours")] == [
        {"choices": ["yes", "no"], "answer": "yes"},
        {"choices": ["yes", "no"], "answer": "no"},
        {"choices": ["yes", "no"], "answer": "no"},
        {"choices": ["yes", "maybe"], "answer": "maybe"},
    ]


def test_the_merged_target_is_what_is_checked(workspace: Path) -> None:
    categories = {
        "pick": {"scorer": "choice", "max_new_tokens": 4, "description": "x", "target": {"choices": ["yes", "no"]}}
    }
    eval_set(workspace, [item(category="pick", target={"answer": "maybe"})], categories=categories)
    [problem] = eval_sets.problems("colours")
    assert "'maybe' is not among its choices" in problem


def test_items_of_a_document_or_a_group_share_a_cluster(workspace: Path) -> None:
    rows = [
        item(id="name-1", prompt=None, fields={"question": "?"}, document="lease"),
        item(id="name-2", group="a"),
        item(id="name-3"),
    ]
    eval_set(workspace, rows, template=TEMPLATE)
    document(workspace)
    assert [found.cluster for found in eval_sets.read_items("colours")] == ["lease", "a", None]


def test_all_mistakes_of_all_lines_come_at_once(workspace: Path) -> None:
    eval_set(workspace, [{"id": 1, "promt": "x"}, item(target="red"), item()])
    lines = Counter(problem.split(" ")[0] for problem in eval_sets.problems("colours"))
    # Line 1: a key lacking, one unknown, one of the wrong type, no question. Line 2: its target. Line 3: an id.
    assert lines == {f"{PLACE}:1:": 4, f"{PLACE}:2:": 1, f"{PLACE}:3:": 1}


def test_an_empty_set_is_a_mistake(workspace: Path) -> None:
    eval_set(workspace, [])
    assert eval_sets.problems("colours") == [f"{PLACE}: empty; it needs at least one line"]


def test_a_missing_folder_lists_those_there_are(workspace: Path) -> None:
    assert eval_sets.problems("colors") == ["eval_sets/colors: no such eval set (there are: none)"]
    eval_set(workspace)
    assert eval_sets.problems("colors") == ["eval_sets/colors: no such eval set (there are: colours)"]


def test_a_missing_file_of_the_set_is_told(workspace: Path) -> None:
    items = eval_set(workspace)
    items.unlink()
    assert eval_sets.problems("colours") == [f"{PLACE}: missing"]
    (items.parent / "card.yaml").unlink()
    assert [problem.split(";")[0] for problem in eval_sets.problems("colours")] == [
        "eval_sets/colours/card.yaml: missing",
        f"{PLACE}: missing",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("half \ud800 of one", r"holds half of a character (a lone surrogate such as \ud800); write the whole one"),
        ("\0x", "holds a NUL character; remove it"),
    ],
)
def test_what_is_no_text_is_refused(workspace: Path, text: str, words: str) -> None:
    place = eval_set(workspace)
    place.write_text(json.dumps(item(prompt=text)) + "\n")
    assert eval_sets.problems("colours") == [f"{PLACE}:1: {words}"]
