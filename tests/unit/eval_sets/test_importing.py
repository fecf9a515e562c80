from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.eval_sets.importers.sources import write

from pipeline import eval_sets
from pipeline.errors import UserError
from pipeline.eval_sets import importing
from pipeline.eval_sets.importers import Options


def run(source: str, source_format: str | None = "csv", options: Options | None = None, **more: Any) -> list[str]:
    return importing.run(source, "mine", source_format, options or Options(), **more)


def refusals(*arguments: Any, **more: Any) -> list[str]:
    with pytest.raises(UserError) as caught:
        run(*arguments, **more)
    assert not Path("eval_sets/mine").exists()
    return list(caught.value.problems)


def test_an_imported_set_has_no_mistakes_and_says_where_it_comes_from() -> None:
    source = write("a.csv", "prompt,answer,category\nSky?,blue,colour\n2?,two,number\nSnow?,white,colour\n")
    assert run(source, language="en", licence="MIT", max_new_tokens=5) == ["eval_sets/mine: items 3, categories 2"]
    assert eval_sets.problems("mine") == []
    assert [item.id for item in eval_sets.read_items("mine")] == ["colour-001", "number-001", "colour-002"]
    card = eval_sets.read_card("mine")
    assert (card.language, card.licence, card.provenance) == ("en", "MIT", "Imported from the CSV file a.csv.")
    assert {name: (each.scorer, each.max_new_tokens) for name, each in card.categories.items()} == {
        "colour": ("exact", 5),
        "number": ("exact", 5),
    }


def test_what_the_source_does_not_say_is_left_to_be_written() -> None:
    run(write("a.csv", "prompt,answer\nSky?,blue\n"))
    card = eval_sets.read_card("mine")
    assert all(text.startswith("TODO") for text in (card.language, card.licence, card.description))
    assert card.categories["items"].max_new_tokens == importing.MAX_NEW_TOKENS


def test_items_with_choices_generate_nothing() -> None:
    run(write("a.csv", "prompt,answer,choices\nSky?,blue,red|blue\n"), max_new_tokens=5)
    assert eval_sets.read_card("mine").categories["items"].max_new_tokens == 1


def test_layout_and_worked_examples_of_the_source_go_into_the_card() -> None:
    import json

    rows = [{"q": "Sky?", "a": "blue"}]
    shot = {"q": "Snow?\n", "a": "white"}
    write("d.jsonl", rows)
    task = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "d.jsonl"}},
        "test_split": "test",
        "doc_to_text": "{{q}}\nA:",
        "doc_to_target": "a",
        "description": "Be brief.\n\n",
        "num_fewshot": 1,
        "fewshot_config": {"sampler": "first_n", "samples": [shot]},
    }
    run(write("t.yaml", json.dumps(task)), "lm-eval")
    card = eval_sets.read_card("mine")
    assert (card.format, card.system) == ("text", "Be brief.")
    assert [(each.prompt, each.answer) for each in card.few_shot] == [("Snow?\n\nA:", "white")]
    assert card.categories["items"].max_new_tokens == 256
    assert "prompt: |" in Path("eval_sets/mine/card.yaml").read_text()


def test_nothing_is_overwritten() -> None:
    Path("eval_sets/mine").mkdir(parents=True)
    with pytest.raises(UserError, match="eval_sets/mine is there already"):
        run(write("a.csv", "prompt,answer\nSky?,blue\n"))


def test_a_target_that_the_scorer_would_not_take_is_refused_with_the_line_of_its_source() -> None:
    source = write("a.csv", "prompt,answer,choices\nSky?,blue,red|blue\nSnow?,white,red|blue\n ,red,red|blue\n")
    assert refusals(source) == [
        "a.csv:3: target.answer 'white' is not among its choices (red, blue)",
        "a.csv:4: prompt: is empty, got ' '",
    ]


def test_a_category_has_one_scorer() -> None:
    rows = [
        {"vars": {"q": "x"}, "assert": [{"type": "contains", "value": "a"}]},
        {"vars": {"q": "y"}, "assert": [{"type": "equals", "value": "a"}]},
    ]
    run(write("t.jsonl", rows), "promptfoo")
    assert list(eval_sets.read_card("mine").categories) == ["contains-all", "exact"]


def test_a_row_without_choices_among_others_with_them_is_refused() -> None:
    source = write("a.csv", "prompt,answer,choices\nSky?,blue,red|blue\nSnow?,white,\n")
    assert refusals(source) == [
        "a.csv:3: category 'items' is scored by exact here and by multiple_choice at a.csv:2; give one of them another "
        "category"
    ]


def test_a_source_without_items_is_refused() -> None:
    assert refusals(write("a.csv", "prompt,answer\n")) == ["the source holds no items"]


def test_the_format_must_be_known() -> None:
    source = write("a.csv", "prompt,answer\nSky?,blue\n")
    files = "allowed: csv, lm-eval, openai-evals, promptfoo"
    allowed = f"{files}; a data set on the hub is named hub:owner/name, without --format"
    assert refusals(source, None) == [f"--format: needed for a file; {allowed}"]
    assert refusals(source, "promptfu") == ["--format promptfu: no format of a file; did you mean 'promptfoo'?"]
    assert refusals(source, "hub") == [f"--format hub: no format of a file; {allowed}"]


@pytest.mark.parametrize("source_format", ["csv", "hub"])
def test_a_hub_data_set_takes_no_format(source_format: str) -> None:
    assert refusals("hub:org/bank", source_format) == [
        f"--format {source_format}: a file has a format, but hub:org/bank is a hub data set; leave it out"
    ]


def test_options_that_mean_nothing_to_the_format_are_refused() -> None:
    source = write("a.csv", "prompt,answer\nSky?,blue\n")
    assert refusals(source, "csv", Options(revision="x", split="y")) == [
        "--revision: means nothing to the format csv",
        "--split: means nothing to the format csv",
    ]


def test_a_hub_data_set_needs_no_format() -> None:
    problems = refusals("hub:org/bank", None)
    assert problems[0].startswith("--revision: needs a commit")
