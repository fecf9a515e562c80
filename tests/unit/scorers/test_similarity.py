from __future__ import annotations

import socket
from typing import Any

import pytest

from pipeline.scorers import similarity
from pipeline.scorers.similarity import chrf, rouge_l, target_problems


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        # Longest common subsequence "the cat on the mat": 5 of 6 words on either side.
        ("the cat is on the mat", "The cat sat on the mat.", 5 / 6),
        # 2 of 4 output words, 2 of 2 reference words: 2·(1/2)·1 / (1/2 + 1).
        ("we refund it gladly", "refund gladly", 2 / 3),
        # Characters of 可以退款 in order: 4 of 6 and 4 of 4.
        ("可以全额退款", "可以退款", 0.8),
        # 7 天 退 款 of 7 tokens 7 天 内 可 以 退 款, and 4 of 4.
        ("7天内可以退款", "7天退款", 8 / 11),
        ("Größe", "größe", 1),
        ("Größe", "Grösse", 1),
        ("gross", "größe", 0),
        ("running", "runs", 0),  # no stemming
        ("the mat on", "on the mat", 2 / 3),
        ("", "refund", 0),
        ("!?", "refund", 0),
    ],
)
def test_rouge_l_is_the_f1_of_the_longest_common_subsequence(output: str, reference: str, expected: float) -> None:
    assert rouge_l(output, {"reference": reference}) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        # 1-grams 2/3, 2-grams 1/2, 3-grams 0/1; precision and recall alike, so F2 is their mean 7/18.
        ("abd", "abc", 7 / 18),
        # 1-grams: precision 2/2, recall 2/3; 2-grams: 1/1, 1/2; 3-grams only in the reference. Over the two orders
        # that both have: precision 1, recall 7/12; F2 = 5·1·(7/12) / (4·1 + 7/12).
        ("ab", "abc", 5 * (7 / 12) / (4 + 7 / 12)),
        ("可以退款", "可以退款", 1),
        ("可 以退款", "可以退款", 1),  # white space is left out
        ("", "abc", 0),
        ("xyz", "abc", 0),
    ],
)
def test_chrf_is_the_f2_of_character_ngrams(output: str, reference: str, expected: float) -> None:
    assert chrf(output, {"reference": reference}) == pytest.approx(expected)


def test_an_answer_equal_to_the_reference_passes() -> None:
    reference = "Please unplug the heater before you clean it, and let it cool for 20 minutes."
    assert rouge_l(reference, {"reference": reference}) == 1
    assert chrf(reference, {"reference": reference}) == 1


@pytest.mark.parametrize("name", ["rouge_l_metric", "chrf_metric"])
def test_a_metric_file_has_one_module_per_import_line(name: str) -> None:
    """`evaluate.load` reads them as text."""
    source = similarity.Path(similarity.__file__).with_name(f"{name}.py").read_text()
    imports = [line for line in source.splitlines() if line.startswith("import ")]
    assert len(imports) >= 2
    assert not any("," in line for line in imports)


@pytest.mark.parametrize("target", [None, {}, {"reference": ""}, {"reference": "…!"}, {"reference": 3}, {"ref": "a"}])
def test_a_bad_target_is_named(target: Any) -> None:
    [problem] = target_problems(target)
    assert "reference" in problem


def test_a_good_target_passes() -> None:
    assert target_problems({"reference": "可以退款"}) == []
