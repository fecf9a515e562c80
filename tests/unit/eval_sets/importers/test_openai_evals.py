from __future__ import annotations

from unit.eval_sets.importers.sources import asked, read, refusals, write

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Sky?"}]


def test_messages_and_texts_are_taken_over_with_one_or_several_answers() -> None:
    name = write("s.jsonl", [{"input": MESSAGES, "ideal": "blue"}, {"input": "Snow?", "ideal": ["white", "White."]}])
    draft = read("openai_evals", name)
    assert asked(draft) == [
        ("items", "exact", {"messages": MESSAGES}, {"answer": "blue"}),
        ("items", "exact", "Snow?", {"any_of": ["white", "White."]}),
    ]
    assert [item.place for item in draft.items] == ["s.jsonl:1", "s.jsonl:2"]
    assert draft.notes == [
        "samples do not say how answers are compared: taken as exact; --scorer contains_any finds the answer within a "
        "longer one"
    ]


def test_a_scorer_of_one_s_own_makes_the_target() -> None:
    name = write("s.jsonl", [{"input": "Snow?", "ideal": ["white", "pale"]}])
    draft = read("openai_evals", name, scorer="contains_any")
    assert asked(draft) == [("items", "contains_any", "Snow?", {"any_of": ["white", "pale"]})]


def test_everything_that_cannot_be_taken_over_is_refused_with_its_line() -> None:
    rows = [
        {"input": "x", "ideal": "y", "metadata": {}},
        {"input": [{"role": "user", "content": "x", "name": "Ann"}], "ideal": "y"},
        {"input": "x", "ideal": []},
        {"input": 3, "ideal": "y"},
        {"ideal": "y"},
    ]
    assert refusals("openai_evals", write("s.jsonl", rows)) == [
        "s.jsonl:1: 'metadata' of a sample cannot be imported; remove it, if the items do without",
        "s.jsonl:2: messages in 'input' have 'name', which an eval set cannot hold",
        "s.jsonl:3: 'ideal' must be a text or a list of texts",
        "s.jsonl:4: 'input' must be a text or a list of messages",
        "s.jsonl:5: 'input' must be a text or a list of messages",
    ]


def test_lines_that_are_no_objects_are_told_all_at_once() -> None:
    problems = refusals("openai_evals", write("s.jsonl", "{\n[1]\n"))
    assert [problem[:10] for problem in problems] == ["s.jsonl:1:", "s.jsonl:2:"]
