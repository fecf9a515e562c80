from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.eval_sets.importers.sources import asked, read, refusals, write

from pipeline.eval_sets.card import Format

ROWS = [
    {"question": "Sky?", "choices": ["red", "blue"], "label": 1, "answer": "blue"},
    {"question": "Snow?", "choices": ["white", "black"], "label": 0, "answer": "white"},
]
BASE: dict[str, Any] = {
    "task": "colours",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "d.jsonl"}},
    "test_split": "test",
}
CHOICES = BASE | {
    "output_type": "multiple_choice",
    "doc_to_text": "Q: {{question}}\nA:",
    "doc_to_choice": "choices",
    "doc_to_target": "label",
}
FREE = BASE | {"output_type": "generate_until", "doc_to_text": "question", "doc_to_target": "answer"}


@pytest.fixture(autouse=True)
def data(workspace: Path) -> None:
    assert workspace.is_dir()
    write("d.jsonl", ROWS)


def task(base: dict[str, Any], **more: Any) -> str:
    return write("t.yaml", yaml.safe_dump(base | more, sort_keys=False))


def test_a_multiple_choice_task_is_taken_over() -> None:
    draft = read("lm_eval", task(CHOICES))
    assert asked(draft) == [
        ("items", "multiple_choice", "Q: Sky?\nA:", {"choices": ["red", "blue"], "answer": "blue"}),
        ("items", "multiple_choice", "Q: Snow?\nA:", {"choices": ["white", "black"], "answer": "white"}),
    ]
    assert [item.place for item in draft.items] == ["d.jsonl:1", "d.jsonl:2"]
    assert (draft.format, draft.system, draft.few_shot, draft.description) == (Format.TEXT, None, [], "colours")


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"doc_to_target": "answer"}, "blue"),
        ({"doc_to_target": "{{label}}"}, "blue"),
        ({"doc_to_target": 0}, "red"),
        ({"doc_to_choice": ["red", "blue"]}, "blue"),
        ({"doc_to_choice": {"a": "red", "b": "blue"}}, "blue"),
        ({"doc_to_choice": "{{choices}}"}, "blue"),
        ({"doc_to_choice": "{{['red', choices[1]]}}"}, "blue"),
    ],
)
def test_answer_and_choices_are_read_as_lm_eval_reads_them(changes: dict[str, Any], answer: str) -> None:
    write("d.jsonl", ROWS[:1])
    [(_, _, _, target)] = asked(read("lm_eval", task(CHOICES, **changes)))
    assert target == {"choices": ["red", "blue"], "answer": answer}


def test_a_free_task_is_compared_as_a_whole_and_says_so() -> None:
    draft = read("lm_eval", task(FREE))
    assert asked(draft)[0] == ("items", "exact", "Sky?", {"answer": "blue"})
    assert draft.max_new_tokens == 256
    assert "answers are compared as a whole, without regard to case and a final period" in draft.notes
    assert any("blank line" in note for note in draft.notes)
    assert read("lm_eval", task(FREE, generation_kwargs={"max_gen_toks": 32})).max_new_tokens == 32


def test_several_right_answers_are_taken_over() -> None:
    write("d.jsonl", [{"question": "Sky?", "answer": ["blue", "azure"]}])
    assert asked(read("lm_eval", task(FREE)))[0][3] == {"any_of": ["blue", "azure"]}


def test_a_scorer_stands_in_for_metrics_and_filters() -> None:
    base = FREE | {"metric_list": [{"metric": "bleu"}], "filter_list": [{"name": "x"}]}
    assert refusals("lm_eval", task(base)) == [
        "t.yaml:12: filter_list cannot be imported: a scorer judges the whole answer; remove it, or name one with "
        "--scorer",
        "t.yaml:11: metric 'bleu' cannot be imported; these can: acc, acc_norm, exact_match, chrf; or name a --scorer",
    ]
    draft = read("lm_eval", task(base), scorer="contains_any")
    assert asked(draft)[0][3] == {"any_of": ["blue"]}
    assert [note for note in draft.notes if "stands in for" in note] == [
        "t.yaml:10: --scorer contains_any stands in for 'metric_list'",
        "t.yaml:12: --scorer contains_any stands in for 'filter_list'",
    ]


def test_a_metric_chooses_its_scorer() -> None:
    assert asked(read("lm_eval", task(FREE, metric_list=[{"metric": "chrf"}])))[0][1] == "chrf"
    assert asked(read("lm_eval", task(CHOICES, metric_list=[{"metric": "acc"}])))[0][1] == "multiple_choice"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"output_type": "loglikelihood"}, "output_type 'loglikelihood' cannot be imported"),
        ({"target_delimiter": "\n"}, "target_delimiter '\\n' cannot be imported; only ' ' can"),
        ({"fewshot_delimiter": "\n"}, "fewshot_delimiter '\\n' cannot be imported; only '\\n\\n' can"),
        ({"repeats": 4}, "repeats 4 cannot be imported; only 1 can"),
        ({"gen_prefix": "A"}, "'gen_prefix' of an lm-eval task cannot be imported"),
        ({"include": "x.yaml"}, "'include' of an lm-eval task cannot be imported"),
        ({"generation_kwargs": {"until": ["\n"]}}, "until ['\\n'] cannot be imported: a model ends its answer itself"),
        ({"generation_kwargs": {"do_sample": True}}, "do_sample True cannot be imported: answers are greedy"),
        ({"generation_kwargs": {"temperature": 0.7}}, "temperature 0.7 cannot be imported: answers are greedy"),
        ({"dataset_path": "gsm8k"}, "dataset_path 'gsm8k' is not local JSON"),
        ({"dataset_kwargs": {"data_files": "d.jsonl", "field": "x"}}, "dataset_kwargs must hold data_files"),
        ({"dataset_kwargs": {"data_files": "none.jsonl"}}, "test_split 'test' is not in dataset_kwargs.data_files"),
        ({"dataset_kwargs": {"data_files": {"test": "none.jsonl"}}}, "no file none.jsonl"),
        ({"test_split": None}, "lacks 'test_split' or 'validation_split'"),
        ({"num_fewshot": 2}, "num_fewshot is 2, but there are 0 examples"),
        (
            {"num_fewshot": 1, "fewshot_config": {"sampler": "first_n", "doc_to_text": "x"}},
            "fewshot_config.doc_to_text",
        ),
    ],
)
def test_what_a_task_cannot_carry_over_is_refused_with_its_line(changes: dict[str, Any], problem: str) -> None:
    found = refusals("lm_eval", task(FREE, **changes))
    assert any(problem in each for each in found)
    assert all(each.startswith("t.yaml:") for each in found)


def test_programs_are_refused_by_name_and_line() -> None:
    name = task(FREE)
    text = Path(name).read_text().replace("doc_to_text: question", "doc_to_text: !function utils.ask")
    write(name, text + "process_docs: !function utils.process\nmetric_list:\n  - metric: !function utils.score\n")
    found = refusals("lm_eval", name)
    assert [each.split(", which")[0] for each in found[:3]] == [
        "t.yaml:8: doc_to_text is a program (!function utils.ask)",
        "t.yaml:10: process_docs is a program (!function utils.process)",
        "t.yaml:12: metric_list.0.metric is a program (!function utils.score)",
    ]


@pytest.mark.parametrize(
    ("row", "changes", "problem"),
    [
        ({"question": "x"}, {}, "d.jsonl:2: doc_to_choice names the field 'choices', which is missing here"),
        ({"question": "x", "choices": ["a", "b"], "label": 2}, {}, "d.jsonl:2: doc_to_target gives choice number 2"),
        ({"question": "x", "choices": "ab", "label": 0}, {}, "d.jsonl:2: doc_to_choice must give a list of texts"),
        ({"question": 1, "choices": ["a", "b"], "label": 0}, {"doc_to_text": "{{question}}"}, "several inputs"),
        ({"question": "x", "choices": ["a", "b"], "label": [0, 1]}, {}, "takes one answer, got 2"),
    ],
)
def test_a_document_that_makes_no_item_is_refused_with_its_line(
    row: dict[str, Any], changes: dict[str, Any], problem: str
) -> None:
    write("d.jsonl", [ROWS[0], row])
    base = CHOICES | {"doc_to_text": "{{question}} {{choices}}"} | changes
    [found] = refusals("lm_eval", task(base))
    assert problem in found


def test_the_description_stands_first_and_a_blank_line_after_it() -> None:
    draft = read("lm_eval", task(CHOICES, description="Answer briefly.\n\n"))
    assert draft.system == "Answer briefly."
    assert not any("blank line separates" in note for note in draft.notes)
    draft = read("lm_eval", task(CHOICES, description="Answer briefly: "))
    assert draft.system == "Answer briefly:"
    assert any("a blank line separates it from the rest now" in note for note in draft.notes)


SAMPLES = {"num_fewshot": 1, "fewshot_config": {"sampler": "first_n", "samples": ROWS}}


def test_worked_examples_are_taken_over_in_their_order() -> None:
    assert read("lm_eval", task(CHOICES, **SAMPLES)).few_shot == [{"prompt": "Q: Sky?\nA:", "answer": "blue"}]
    assert len(read("lm_eval", task(CHOICES, **(SAMPLES | {"num_fewshot": 2}))).few_shot) == 2
    draft = read("lm_eval", task(CHOICES, **(SAMPLES | {"num_fewshot": 0})))
    assert draft.few_shot == []
    assert any("its samples are left out" in note for note in draft.notes)


def test_worked_examples_can_come_from_a_split() -> None:
    write("s.jsonl", ROWS[::-1])
    files = {"data_files": {"test": "d.jsonl", "dev": "s.jsonl"}}
    base = CHOICES | {"dataset_kwargs": files, "num_fewshot": 1, "fewshot_split": "dev"}
    draft = read("lm_eval", task(base))
    assert draft.few_shot == [{"prompt": "Q: Snow?\nA:", "answer": "white"}]
    assert any("lm-eval draws others for each" in note for note in draft.notes)


def test_data_can_be_a_json_list_beside_the_task_and_without_splits_it_is_train() -> None:
    import json

    Path("sub").mkdir()
    write("sub/d.json", json.dumps(ROWS))
    base = CHOICES | {"dataset_kwargs": {"data_files": "d.json"}, "test_split": "train"}
    write("sub/t.yaml", yaml.safe_dump(base))
    assert len(read("lm_eval", "sub/t.yaml").items) == 2


def test_what_has_no_bearing_on_the_items_is_left_out_and_told() -> None:
    draft = read("lm_eval", task(CHOICES, tag=["x"], metadata={"version": 1.0}))
    assert draft.notes[:2] == ["t.yaml:13: 'tag' is left out", "t.yaml:15: 'metadata' is left out"]
