from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.eval_sets.importers.sources import asked, read, refusals, write

from pipeline.scorers import SCORERS

PROMPT = "Say: {{text}}"


def config(*tests: Any, **more: Any) -> str:
    return write("c.yaml", yaml.safe_dump({"prompts": [PROMPT], "tests": list(tests)} | more, sort_keys=False))


def test(*asserts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"vars": {"text": "hi"}, "assert": list(asserts)} | more


test.__test__ = False  # type: ignore[attr-defined]


def check(kind: str, value: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": kind} | ({} if value is None else {"value": value}) | more


@pytest.mark.parametrize(
    ("asserts", "scorer", "target"),
    [
        ([check("equals", "Hi!")], "exact", {"answer": "Hi!"}),
        ([check("equals", 4)], "exact", {"answer": "4"}),
        ([check("contains", "hi")], "contains_all", {"all_of": ["hi"]}),
        ([check("icontains", 0)], "contains_all", {"all_of": ["0"]}),
        ([check("contains-any", ["a", "b"])], "contains_any", {"any_of": ["a", "b"]}),
        ([check("icontains-all", ["a", "b"])], "contains_all", {"all_of": ["a", "b"]}),
        (
            [check("contains", "a"), check("contains-any", ["b", "c"]), check("not-contains", "d")],
            "contains_all",
            {"all_of": ["a", ["b", "c"]], "none_of": ["d"]},
        ),
        (
            [check("is-json", {"type": "object"}), check("equals", {"a": 1})],
            "json_schema",
            {"schema": {"type": "object"}, "value": {"a": 1}},
        ),
        ([check("equals", {"a": [1]})], "json_schema", {"schema": {}, "value": {"a": [1]}}),
        ([check("contains", "{{text}}!")], "contains_all", {"all_of": ["hi!"]}),
    ],
)
def test_assertions_become_one_scorer_and_its_target(asserts: list[Any], scorer: str, target: dict[str, Any]) -> None:
    draft = read("promptfoo", config(test(*asserts)))
    assert asked(draft) == [(scorer.replace("_", "-"), scorer, "Say: hi", target)]
    assert SCORERS[scorer].target_problems(target) == []


@pytest.mark.parametrize(
    ("pattern", "output", "found"),
    [
        (r"\d{4}", "In 2024\nit was", True),
        (r"\d{4}", "In 24", False),
        (r"^In", "In 24", True),
        (r"^It", "In 24\nIt", False),
        ("a.b", "a\nb", False),
    ],
)
def test_a_pattern_is_found_anywhere_as_in_promptfoo(pattern: str, output: str, found: bool) -> None:
    [(_, scorer, _, target)] = asked(read("promptfoo", config(test(check("regex", pattern)))))
    assert SCORERS[scorer].target_problems(target) == []
    assert SCORERS[scorer].score(output, target) == found


@pytest.mark.parametrize(
    "kind",
    ["python", "javascript", "llm-rubric", "similar", "cost", "latency", "factuality", "not-equals", "starts-with"],
)
def test_an_assertion_without_a_like_is_refused_by_its_type_and_line(kind: str) -> None:
    [problem] = refusals("promptfoo", config(test(check("contains", "x"), check(kind, "y"))))
    assert problem.startswith(f"c.yaml:9: assertion {kind!r} cannot be imported; these can: contains, ")


@pytest.mark.parametrize(
    ("asserts", "problem"),
    [
        ([check("is-json")], "c.yaml:4: 'is-json' alone says nothing of the values"),
        ([check("not-contains", "x")], "c.yaml:4: only says what must not stand in the answer"),
        ([], "c.yaml:4: no assertion, so nothing tells a right answer"),
        ([check("equals", "x"), check("contains", "y")], "c.yaml:4: the assertions equals, contains together cannot"),
        ([check("equals", "x"), check("equals", "y")], "c.yaml:4: the assertions equals, equals together cannot"),
        ([check("contains", "x", weight=2)], "c.yaml:9: 'weight' of 'contains' cannot be imported"),
        ([check("equals", "x", transform="y")], "c.yaml:9: 'transform' of 'equals' cannot be imported"),
        ([check("contains-all", "a, b")], "c.yaml:8: 'contains-all': the value must be a list of texts, got 'a, b'"),
        ([check("equals", "file://x.json")], "c.yaml:8: 'equals': the value is a file (file://x.json)"),
        ([check("regex", "(?<y>x)")], "c.yaml:8: 'regex': '(?<y>x)' is no regular expression of Python"),
        ([check("contains", "{{other}}")], "c.yaml:8: 'contains': the template '{{other}}' cannot be filled"),
    ],
)
def test_what_assertions_cannot_carry_over_is_refused_with_its_line(asserts: list[Any], problem: str) -> None:
    [found] = refusals("promptfoo", config(test(*asserts)))
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"scenarios": []}, "c.yaml:9: 'scenarios' of a promptfoo configuration cannot be imported"),
        ({"prompts": ["a", "b"]}, "c.yaml:1: 2 prompts, but an eval set asks each item once"),
        ({"prompts": []}, "c.yaml:1: 0 prompts"),
        ({"prompts": ["file://p.py"]}, "c.yaml:2: the prompt 'file://p.py' is a program"),
        ({"prompts": "file://none.txt"}, "none.txt: cannot be read"),
        ({"prompts": ["{{text"]}, "c.yaml:4: the template '{{text' cannot be filled"),
        ({"prompts": ['[{"role": "user", "content": {{text}}}]']}, "c.yaml:2: the prompt looks like a JSON list"),
        ({"defaultTest": {"threshold": 1}}, "c.yaml:10: 'threshold' of defaultTest cannot be imported"),
        ({"tests": "file://t.csv"}, "c.yaml:3: tests in 'file://t.csv' cannot be imported"),
        ({"tests": 3}, "c.yaml:3: expected tests or the name of a file with tests, got 3"),
    ],
)
def test_what_a_configuration_cannot_carry_over_is_refused_with_its_line(more: dict[str, Any], problem: str) -> None:
    [found] = refusals("promptfoo", config(test(check("contains", "x")), **more))
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"options": {"transform": "x"}}, "c.yaml:9: 'options' of a test cannot be imported"),
        ({"threshold": 0.5}, "c.yaml:9: 'threshold' of a test cannot be imported"),
        ({"vars": "file://v.yaml"}, "c.yaml:4: 'vars' must be given in the file itself"),
        ({"vars": {"text": "file://t.pdf"}}, "c.yaml:4: variable 'text' is a file (file://t.pdf)"),
        ({"vars": {"text": "{{now}}"}}, "c.yaml:4: variable 'text' is a template itself"),
        ({"vars": {}}, "c.yaml:4: the template 'Say: {{text}}' cannot be filled: 'text' is undefined"),
        ({"assert": "x"}, "c.yaml:6: 'assert' must be a list"),
    ],
)
def test_what_a_test_cannot_carry_over_is_refused_with_its_line(changes: dict[str, Any], problem: str) -> None:
    [found] = refusals("promptfoo", config(test(check("contains", "x")) | changes))
    assert found.startswith(problem)


def test_all_refusals_come_at_once() -> None:
    assert len(refusals("promptfoo", config(test(check("cost")), test(check("python")), test(), scenarios=[]))) == 4


def test_what_has_no_bearing_on_the_items_is_left_out_and_told() -> None:
    tests = [
        test(check("contains", "x"), description="a", metadata={"b": 1}),
        test(check("contains", "x"), description="c"),
    ]
    draft = read("promptfoo", config(*tests, providers=["some:model"], description="Greetings"))
    assert draft.description == "Greetings"
    assert draft.notes[:3] == [
        "c.yaml:18: 'providers' is left out",
        "'description' is left out in 2 of 2 tests",
        "'metadata' is left out in 1 of 2 tests",
    ]
    assert draft.notes[3].startswith("contains and its kin look for whole words")


def test_every_combination_of_listed_values_is_an_item() -> None:
    prompt = ["{{a}} {{b}}"]
    tests = {"vars": {"a": ["x", "y"], "b": [1, 2]}, "assert": [check("contains", "{{a}}")]}
    draft = read("promptfoo", config(tests, prompts=prompt))
    assert [(question, target["all_of"]) for _, _, question, target in asked(draft)] == [
        ("x 1", ["x"]),
        ("x 2", ["x"]),
        ("y 1", ["y"]),
        ("y 2", ["y"]),
    ]


def test_the_default_test_adds_variables_and_assertions() -> None:
    default = {"vars": {"text": "d", "more": "m"}, "assert": [check("not-contains", "bad")]}
    tests = [test(check("contains", "x")), {"vars": {}, "assert": [check("contains", "{{more}}")]}]
    draft = read("promptfoo", config(*tests, defaultTest=default))
    assert [(question, target) for _, _, question, target in asked(draft)] == [
        ("Say: hi", {"all_of": ["x"], "none_of": ["bad"]}),
        ("Say: d", {"all_of": ["m"], "none_of": ["bad"]}),
    ]


MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "Say: {{text}}"}]


@pytest.mark.parametrize("kind", ["inline", "json", "yaml", "raw"])
def test_a_prompt_can_be_a_conversation(kind: str) -> None:
    import json

    write("p.json", json.dumps(MESSAGES))
    write("p.yaml", yaml.safe_dump(MESSAGES))
    prompt = {
        "inline": json.dumps(MESSAGES),
        "json": "file://p.json",
        "yaml": "p.yaml",
        "raw": {"raw": json.dumps(MESSAGES), "label": "chat"},
    }[kind]
    [(_, _, question, _)] = asked(read("promptfoo", config(test(check("contains", "x")), prompts=[prompt])))
    assert question == {"messages": [MESSAGES[0], {"role": "user", "content": "Say: hi"}]}


def test_a_prompt_can_stand_in_a_text_file_beside_the_configuration() -> None:
    Path("sub").mkdir()
    write("sub/p.txt", "Hello {{text}}\n")
    write("sub/c.yaml", yaml.safe_dump({"prompts": "file://p.txt", "tests": [test(check("contains", "x"))]}))
    assert asked(read("promptfoo", "sub/c.yaml"))[0][2] == "Hello hi"
    write("sub/p.txt", "One\n---\nTwo\n")
    [problem] = refusals("promptfoo", "sub/c.yaml")
    assert "holds several prompts" in problem


def test_tests_can_stand_in_files_of_their_own() -> None:
    write("a.jsonl", [test(check("contains", "a"))])
    write("b.yaml", yaml.safe_dump([test(check("contains", "b")), test(check("contains", "c"))]))
    draft = read("promptfoo", config("file://a.jsonl", "b.yaml", test(check("contains", "d"))))
    assert [target["all_of"] for _, _, _, target in asked(draft)] == [["a"], ["b"], ["c"], ["d"]]
    assert [item.place for item in draft.items] == ["a.jsonl:1", "b.yaml:1", "b.yaml:6", "c.yaml:6"]


def test_a_file_of_tests_alone_asks_its_one_variable() -> None:
    rows = [{"vars": {"q": "Sky?"}, "assert": [check("contains", "blue")]}]
    assert asked(read("promptfoo", write("t.jsonl", rows))) == [
        ("contains-all", "contains_all", "Sky?", {"all_of": ["blue"]})
    ]
    rows[0]["vars"]["more"] = "x"  # type: ignore[index]
    [problem] = refusals("promptfoo", write("t.jsonl", rows))
    assert problem.startswith("t.jsonl:1: 'vars' holds 2 variables and the file no prompt to fill")


def test_a_test_that_is_none_is_told() -> None:
    write("b.yaml", "[1, 2]")
    assert refusals("promptfoo", config("b.yaml")) == [
        "b.yaml:1: expected a test, got 1",
        "b.yaml:1: expected a test, got 2",
    ]
    write("b.yaml", "a: 1")
    assert refusals("promptfoo", config("b.yaml")) == ["b.yaml: expected a list of tests"]
    assert refusals("promptfoo", write("c.yaml", "- 1\n")) == ["c.yaml:1: expected a promptfoo configuration, got [1]"]
