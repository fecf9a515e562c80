from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from unit.workspace import CARD, ITEMS, eval_set, write_lines

from pipeline import eval_sets
from pipeline.errors import UserError
from pipeline.scorers import SCORERS
from pipeline.tokenizer import Tokenizer

ROOT = Path(__file__).parents[2]
PLACE = "eval_sets/colours/items.jsonl"


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def item(**changes: Any) -> dict[str, Any]:
    return ITEMS[1] | changes


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in ITEMS[1].items() if name != key}


def test_a_good_set_has_no_problems_and_is_read_in_file_order(workspace: Path) -> None:
    eval_set(workspace)
    assert eval_sets.problems("colours") == []
    items = eval_sets.read_items("colours")
    assert [(found.id, found.critical) for found in items] == [
        ("pick-1", False),
        ("name-1", False),
        ("shape-1", True),
        ("fields-1", False),
    ]
    assert items[0].target == ITEMS[0]["target"]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (without("id"), "lacks 'id'"),
        (without("category"), "lacks 'category'"),
        (without("prompt"), "lacks 'prompt'"),
        (without("target"), "lacks 'target'"),
        (item(prompt=""), "'prompt' is empty"),
        (item(prompt=" \n"), "'prompt' is empty"),
        (item(id=""), "'id' is empty"),
        (item(id=7), "'id' must be a text, got int"),
        (item(prompt=["x"]), "'prompt' must be a text, got list"),
        (item(category=["name"]), "'category' must be a text, got list"),
        (item(critical="yes"), "'critical' must be true or false"),
        (item(promt="x"), "unknown key 'promt'; did you mean 'prompt'?"),
        (item(category="nam"), "category 'nam' is not in card.yaml; did you mean 'name'?"),
        (item(id="pick-1"), "id 'pick-1' was already used in line 1"),
        (item(target="red"), 'target must be {"any_of": […]} with at least one text'),
        (item(category="pick"), 'target must be {"answer": …, "choices": […]}'),
        (item(category="shape"), 'target must be {"pattern": "…"}'),
        (item(category="fields", target={"a": [1]}), "target field 'a' must be a text, number, true, false or null"),
        ("{", "not JSON (Expecting property name enclosed in double quotes at column 2)"),
        ([1], "expected a JSON object, got list"),
    ],
)
def test_a_bad_item_is_named_with_file_and_line(workspace: Path, bad: Any, problem: str) -> None:
    eval_set(workspace, [ITEMS[0], "", bad])
    assert eval_sets.problems("colours") == [f"{PLACE}:3: {problem}"]
    with pytest.raises(UserError):
        eval_sets.read_items("colours")


def test_all_mistakes_of_all_lines_come_at_once(workspace: Path) -> None:
    eval_set(workspace, [{"id": 1, "promt": "x"}, item(target=None), item()])
    lines = Counter(problem.split(" ")[0] for problem in eval_sets.problems("colours"))
    # Line 1: three keys lacking, one unknown, one of the wrong type. Line 2: its target. Line 3: an id of line 2.
    assert lines == {f"{PLACE}:1:": 5, f"{PLACE}:2:": 1, f"{PLACE}:3:": 1}


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
    [problem] = eval_sets.problems("colours")
    assert problem.startswith("eval_sets/colours/card.yaml: not found")


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        ({"name": "colors"}, "name is 'colors', but the folder is 'colours'; make them equal"),
        ({"licens": "x"}, "licens: unknown key; did you mean 'licence'?"),
        (
            {"categories": {"pick": CARD["categories"]["pick"] | {"scorer": "choise"}}},
            "categories.pick.scorer: no scorer 'choise'; did you mean 'choice'?",
        ),
        (
            {"categories": {"pick": CARD["categories"]["pick"] | {"max_new_tokens": 0}}},
            "categories.pick.max_new_tokens: input should be greater than or equal to 1, got 0",
        ),
        (
            {"categories": {}},
            "categories: dictionary should have at least 1 item after validation, not 0, got {}",
        ),
    ],
)
def test_a_mistake_in_the_card_is_named_with_its_place(workspace: Path, card: dict[str, Any], problem: str) -> None:
    eval_set(workspace, **card)
    assert eval_sets.problems("colours") == [f"eval_sets/colours/card.yaml: {problem}"]


def test_items_are_tokenized_with_the_system_message_and_hashed(workspace: Path, tiny_checkpoint: Path) -> None:
    eval_set(workspace, system="Be brief.")
    tokenizer = Tokenizer(tiny_checkpoint)
    [first, *others] = eval_sets.tokenize("colours", tokenizer, 1024)
    text = tokenizer._tokenizer.decode(first.token_ids)
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nRed or blue?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert (first.item_id, first.scorer, first.max_new_tokens) == ("pick-1", "choice", 4)
    assert [other.scorer for other in others] == ["contains", "regex", "json_fields"]
    assert len({prompt.prompt_sha256 for prompt in (first, *others)}) == 4


def test_tokenizing_twice_gives_identical_prompts(workspace: Path, tiny_checkpoint: Path) -> None:
    eval_set(workspace)
    once = eval_sets.tokenize("colours", Tokenizer(tiny_checkpoint), 1024)
    assert once == eval_sets.tokenize("colours", Tokenizer(tiny_checkpoint), 1024)


def test_the_context_must_hold_prompt_and_answer_to_the_last_token(workspace: Path, tiny_checkpoint: Path) -> None:
    eval_set(workspace, [item(prompt="word " * 50), item(id="name-2")])
    tokenizer = Tokenizer(tiny_checkpoint)
    long, _ = eval_sets.tokenize("colours", tokenizer, 1024)
    needed = len(long.token_ids) + 6
    assert len(eval_sets.tokenize("colours", tokenizer, needed)) == 2
    with pytest.raises(UserError) as caught:
        eval_sets.tokenize("colours", tokenizer, needed - 1)
    [problem] = caught.value.problems
    assert problem.startswith(f"{PLACE}: item 'name-1' has {needed - 6} prompt tokens and may answer with 6")
    assert str(needed - 1) in problem


def test_every_item_over_the_context_is_named(workspace: Path, tiny_checkpoint: Path) -> None:
    eval_set(workspace, [item(id=f"name-{n}") for n in range(3)])
    with pytest.raises(UserError) as caught:
        eval_sets.tokenize("colours", Tokenizer(tiny_checkpoint), 8)
    assert [re.findall(r"name-\d", problem) for problem in caught.value.problems] == [
        ["name-0"],
        ["name-1"],
        ["name-2"],
    ]


@pytest.fixture
def support_desk(monkeypatch: pytest.MonkeyPatch) -> list[eval_sets.Item]:
    monkeypatch.chdir(ROOT)
    return eval_sets.read_items("support-desk")


def test_the_shipped_set_is_large_and_wide_enough(support_desk: list[eval_sets.Item]) -> None:
    counts = Counter(found.category for found in support_desk)
    assert sum(counts.values()) >= 120
    assert len(counts) >= 6
    assert min(counts.values()) >= 10
    card = eval_sets.read_card("support-desk")
    assert set(counts) == set(card.categories)
    assert all((card.version, card.licence, card.provenance, card.language))
    assert {category.scorer for category in card.categories.values()} == set(SCORERS)


def test_no_two_shipped_items_ask_the_same(support_desk: list[eval_sets.Item]) -> None:
    prompts = Counter(" ".join(found.prompt.casefold().split()) for found in support_desk)
    assert [prompt for prompt, times in prompts.items() if times > 1] == []


def gold(scorer: str, target: Any) -> str | None:
    """A right answer, written the way a model would; none for a pattern."""
    match scorer:
        case "choice":
            return str(target["answer"]).capitalize() + "."
        case "contains":
            return f"It is {target['any_of'][0]}."
        case "json_fields":
            return f"```json\n{json.dumps(target, ensure_ascii=False)}\n```"
    return None


def test_a_right_answer_to_a_shipped_item_scores_one_and_silence_zero(support_desk: list[eval_sets.Item]) -> None:
    card = eval_sets.read_card("support-desk")
    for found in support_desk:
        scorer = card.categories[found.category].scorer
        answer = gold(scorer, found.target)
        if answer is not None:
            assert SCORERS[scorer].score(answer, found.target) == 1, found.id
        assert SCORERS[scorer].score("", found.target) == 0, found.id


def test_every_choice_of_a_shipped_item_but_the_answer_scores_zero(support_desk: list[eval_sets.Item]) -> None:
    card = eval_sets.read_card("support-desk")
    for found in support_desk:
        if card.categories[found.category].scorer == "choice":
            scores = {name: SCORERS["choice"].score(name, found.target) for name in found.target["choices"]}
            assert scores == {name: float(name == found.target["answer"]) for name in found.target["choices"]}, found.id


def test_repeating_the_prompt_does_not_score_on_a_shipped_pattern(support_desk: list[eval_sets.Item]) -> None:
    for found in support_desk:
        if found.category == "format":
            assert SCORERS["regex"].score(found.prompt, found.target) == 0, found.id


def test_the_answers_to_the_shipped_choices_are_spread(support_desk: list[eval_sets.Item]) -> None:
    """Always naming the first choice listed must not look like quality."""
    card = eval_sets.read_card("support-desk")
    chosen = [found for found in support_desk if card.categories[found.category].scorer == "choice"]
    for place in (0, -1):
        share = sum(found.target["choices"][place] == found.target["answer"] for found in chosen) / len(chosen)
        assert share < 0.6


BANKING = ROOT.parent / "shared" / "data" / "banking77-train-part.csv"


@pytest.mark.skipif(not BANKING.is_file(), reason="the shared data set is not on this machine")
def test_messages_of_real_customers_make_an_eval_set(workspace: Path) -> None:
    import csv

    with BANKING.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))[:200]
    text, label = list(rows[0])[:2]
    labels = sorted({row[label] for row in rows})
    choices = labels if len(labels) > 1 else [*labels, "other"]
    lines = [
        item(id=f"b-{n}", category="pick", prompt=row[text], target={"answer": row[label], "choices": choices})
        for n, row in enumerate(rows)
    ]
    write_lines(eval_set(workspace), lines)
    assert [found.prompt for found in eval_sets.read_items("colours")] == [row[text] for row in rows]


def test_a_card_that_is_not_utf8_is_told(workspace: Path) -> None:
    items = eval_set(workspace)
    (items.parent / "card.yaml").write_bytes(b"name: caf\xe9")
    assert "UTF-8" in eval_sets.problems("colours")[0]
