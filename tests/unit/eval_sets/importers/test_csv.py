from __future__ import annotations

from pathlib import Path

import pytest
from unit.eval_sets.importers.sources import asked, read, refusals, write


def test_prompt_and_answer_are_compared_as_a_whole() -> None:
    name = write("a.csv", '\ufeffprompt,answer\n"Red, or\nblue?",red\nSky?,blue\n')
    draft = read("csv", name)
    assert asked(draft) == [
        ("items", "exact", "Red, or\nblue?", {"answer": "red"}),
        ("items", "exact", "Sky?", {"answer": "blue"}),
    ]
    assert [item.place for item in draft.items] == ["a.csv:2", "a.csv:4"]


def test_choices_and_categories_are_taken_over() -> None:
    name = write("a.csv", "category,prompt,choices,answer\ncolour,Sky?,red | blue,blue\nnumber,2?,1|2|3,2\n")
    assert asked(read("csv", name)) == [
        ("colour", "multiple_choice", "Sky?", {"choices": ["red", "blue"], "answer": "blue"}),
        ("number", "multiple_choice", "2?", {"choices": ["1", "2", "3"], "answer": "2"}),
    ]


@pytest.mark.parametrize(
    ("scorer", "answer", "target"),
    [
        ("contains_any", "red", {"any_of": ["red"]}),
        ("numeric", "1234.5", {"value": 1234.5}),
        ("numeric", '"1,234"', {"value": 1234}),
        ("regex", "r.d", {"pattern": "r.d"}),
        ("chrf", "red", {"reference": "red"}),
    ],
)
def test_a_scorer_of_one_s_own_makes_the_target(scorer: str, answer: str, target: object) -> None:
    name = write("a.csv", f"prompt,answer\nx,{answer}\n")
    assert asked(read("csv", name, scorer=scorer)) == [("items", scorer, "x", target)]


def test_columns_can_have_other_names() -> None:
    name = write("a.csv", "text,category\nWhere is it?,arrival\n")
    draft = read("csv", name, prompt_field="text", answer_field="category")
    assert asked(draft) == [("items", "exact", "Where is it?", {"answer": "arrival"})]


def test_columns_that_lack_or_mean_nothing_are_refused_by_name() -> None:
    name = write("a.csv", "promt,answer,author\nx,y,z\n")
    assert refusals("csv", name) == [
        "a.csv:1: no column 'prompt'; did you mean 'promt'?; name them with --prompt-field and the like",
        "a.csv:1: column 'promt' cannot be imported; remove it, or name what it holds",
        "a.csv:1: column 'author' cannot be imported; remove it, or name what it holds",
    ]


def test_every_faulty_row_is_refused_with_its_line() -> None:
    name = write("a.csv", 'prompt,answer\n"a\nb",1\nc\nd,e,f\ng,many\n')
    assert refusals("csv", name, scorer="numeric") == [
        "a.csv:4: expected 2 cells, as in the first line",
        "a.csv:5: expected 2 cells, as in the first line",
        "a.csv:6: needs a number as answer, got 'many'",
    ]


def test_a_scorer_without_what_it_needs_is_refused() -> None:
    name = write("a.csv", "prompt,answer\nx,y\n")
    assert refusals("csv", name, scorer="choice") == ["a.csv:2: needs the choices beside the answer"]
    [problem] = refusals("csv", name, scorer="json_schema")
    assert problem.startswith("--scorer json_schema: cannot be told from an answer alone; allowed: choice, chrf")


def test_what_is_no_csv_is_told() -> None:
    assert refusals("csv", write("a.csv", 'prompt,answer\nx,"y\n'))[0].startswith("a.csv:2: not CSV")
    Path("b.csv").write_bytes(b"prompt,answer\ncaf\xe9,x\n")
    assert "not UTF-8" in refusals("csv", "b.csv")[0]
    assert "cannot be read" in refusals("csv", "none.csv")[0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "empty; the first line must name the columns, such as prompt,answer"),
        ("\n\n", "empty; the first line must name the columns, such as prompt,answer"),
        ("prompt;answer\nx;y\n", "its cells are separated by semicolons; save it as CSV with commas"),
        ('"prompt"\t"answer"\n', "its cells are separated by tabs; save it as CSV with commas"),
        (
            '{"input": "x", "ideal": "y"}\n',
            "holds JSON, not CSV; JSON lines are read by --format openai-evals and --format promptfoo",
        ),
        ('"prompt', "not CSV (unexpected end of data)"),
    ],
)
def test_a_first_line_that_is_no_header_is_told(content: str, problem: str) -> None:
    assert refusals("csv", write("a.csv", content)) == [f"a.csv:1: {problem}"]


@pytest.mark.parametrize(("before", "line"), [("prompt,answer\na,b\n", 3), ('"', 1)])
def test_a_cell_that_is_too_long_is_told(before: str, line: int) -> None:
    assert refusals("csv", write("a.csv", before + "x" * 140_000)) == [
        f"a.csv:{line}: a cell has more than 131,072 characters; shorten it, or close the quotation mark that makes "
        "one cell of many"
    ]


def test_a_column_that_stands_there_twice_is_refused() -> None:
    name = write("a.csv", "prompt,prompt,answer\na,b,c\n")
    assert refusals("csv", name) == ["a.csv:1: column 'prompt' stands there 2 times; keep one of them"]
