from __future__ import annotations

import json

import pytest

from pipeline.quality_records import Flaw
from pipeline.scorers.flaws import detect

GOOD = [
    "Yes.",
    "no",
    "8",
    "-5",
    "T-48213",
    "1000000000000",
    "退款",
    "可以，7天内。",
    "哈哈哈哈",
    "?",
    "👍",
    "🇩🇪",
    "é",
    '{"name": "Greta Salonen", "quantity": 20}',
    json.dumps([[0] * 10] * 10),
    f"```json\n{json.dumps({'matrix': [[0, 0, 0]] * 12})}\n```",
    "- cups\n- jugs\n- plates\n- bowls\n- forks\n- knives",
    "1. yes\n2. no\n3. yes\n4. no\n5. yes\n6. yes\n7. yes\n8. no\n9. yes\n10. yes",
    "yes, yes, yes, yes, yes, yes, yes, yes, yes, yes, yes, yes",
    "def add(a, b):\n    return a + b",
    "```python\ndef grid():\n    return [[0] * 3 for _ in range(3)]\n```",
    "# "
    + "-" * 30
    + "\n# Prices without tax\n# "
    + "-" * 30
    + "\nPRICES = {'cup': 4, 'jug': 9, 'plate': 3, 'bowl': 5}",
    "Prices\n======================\nCups cost 4 EUR and jugs 9 EUR.",
    "| item | price |\n|------|-------|\n| cup | 4 |\n| jug | 9 |",
    "<table><tr><td>cup</td><td>4</td></tr><tr><td>jug</td><td>9</td></tr></table>",
    "We are sorry, but we cannot refund this order: it is older than 30 days.",
    "I'm sorry, but the parcel cannot be traced. Please write to the courier.",
    "I can't help but notice that the invoice is missing.",
    "I will not be charged, the customer says.",
    "非常抱歉，我们无法为您办理退款，因为已超过7天。",
    "很抱歉，我们不能提供发票，请联系卖家。",
    "A language model needs a GPU." + " It is large." * 2,
]


@pytest.mark.parametrize("output", GOOD)
def test_good_answers_have_no_flaw(output: str) -> None:
    assert detect(output) is None


@pytest.mark.parametrize("output", ["", " ", "\n\n", "\u200b", "\ufeff \u00a0", "\u2028"])
def test_nothing_to_be_seen_is_empty(output: str) -> None:
    assert detect(output) is Flaw.EMPTY


@pytest.mark.parametrize(
    "output",
    [
        "\ufffd",
        "\ufffd\ufffd\ufffd ok",
        "\x00\x01\x02a",
        "\ue000\ue001x",
        "the " * 20,
        "好的" * 10,
        "Please send it back. " * 6,
        "It costs 4 EUR. We ship " + "to the shop and " * 8,
        "It costs 4 EUR, and we ship it on Monday if it is in stock. " * 1 + "no " * 20,
        "Good words come first in this answer and go on for a while before it " * 1 + "breaks down " * 10,
        "aaaaaaaaaaaaaaaaaaaaaaaa",
        "!" * 24,
        "0" * 60,
        "-" * 40,
        "()" * 20,
        "ha" * 30,
        "\n.\n.\n." * 10,
        "1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1. 1.",
        '{"a": "' + "x, " * 40,  # JSON that never ends
    ],
)
def test_loops_and_garbage_are_degenerate(output: str) -> None:
    assert detect(output) is Flaw.DEGENERATE


def test_a_loop_counts_from_four_times_and_twenty_words() -> None:
    assert detect("one two three four five " * 4) is Flaw.DEGENERATE
    assert detect("one two three four five " * 3) is None
    assert detect("one two three four " * 4) is None
    assert detect("one two three four " * 5) is Flaw.DEGENERATE
    assert detect("word " * 19) is None
    assert detect("word " * 20) is Flaw.DEGENERATE


def test_a_loop_cut_in_the_middle_of_its_unit_counts() -> None:
    assert detect("one two three four five " * 5 + "one two") is Flaw.DEGENERATE


def test_a_loop_that_the_answer_leaves_counts_only_if_it_is_half_of_it() -> None:
    rest = " ".join(f"word{number}" for number in range(21))
    assert detect("so " * 20 + rest) is None
    assert detect("so " * 21 + rest) is Flaw.DEGENERATE


def test_a_loop_that_the_answer_does_not_leave_counts_whatever_came_before() -> None:
    before = " ".join(f"word{number}" for number in range(100))
    assert detect(before + " so" * 20) is Flaw.DEGENERATE
    assert detect(before + " so" * 20 + " then") is None


def test_words_that_differ_are_no_loop() -> None:
    assert detect(" ".join(f"step {number}: turn the key" for number in range(30))) is None


@pytest.mark.parametrize(
    "output",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, but I can’t assist with that request.",
        "I cannot answer this question.",
        "Sorry, I am unable to provide that information.",
        "I'm not able to help you with this.",
        "I won't do that.",
        "I must decline to answer.",
        "As an AI language model, I do not have feelings.",
        "as a large language model I cannot",
        "抱歉，我无法回答这个问题。",
        "对不起，我不能提供相关信息。",
        "作为一个人工智能语言模型，我没有个人意见。",
        "很抱歉，我无法满足您的请求。",
        "我没有办法帮助您。",
    ],
)
def test_declining_to_answer_is_a_refusal(output: str) -> None:
    assert detect(output) is Flaw.REFUSAL


def test_a_refusal_that_comes_late_is_a_quotation() -> None:
    assert (
        detect(
            "The text is about a shop. " * 3
            + "word " * 5
            + "It goes on and on, with many a detail. " * 3
            + "I cannot help."
        )
        is None
    )


def test_a_refusal_without_end_is_degenerate() -> None:
    assert detect("I cannot answer that. " * 10) is Flaw.DEGENERATE
