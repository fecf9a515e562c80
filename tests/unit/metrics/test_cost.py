from __future__ import annotations

import pytest

from pipeline.metrics import cost
from pipeline.records import known, missing


def test_a_million_tokens():
    # 0.36 per hour is 0.0001 per second; 20 tokens per second take 50,000 s for a million
    assert cost.per_million_tokens(0.36, known(20)).value == pytest.approx(5)


def test_a_passing_answer():
    # 0.0001 per second × 2 s, shared by 4 streams, is 0.00005 per answer; half of them pass
    assert cost.per_passing_answer(0.36, known(2), 4, known(0.5)).value == pytest.approx(0.0001)


def test_a_machine_for_free_costs_nothing():
    assert cost.per_million_tokens(0.0, known(20)).value == 0


def test_what_is_missing_says_why():
    none = "no price per hour is given (serving.price_per_hour)"
    assert cost.per_million_tokens(None, known(20)).reason == none
    assert cost.per_passing_answer(None, known(2), 1, known(1)).reason == none
    assert cost.per_million_tokens(1, missing("not run")).reason == "not run"
    assert cost.per_passing_answer(1, missing("not run"), 1, known(1)).reason == "not run"
    assert cost.per_passing_answer(1, known(2), 1, missing("not scored")).reason == "not scored"
    assert cost.per_passing_answer(1, known(2), 1, known(0)).reason == "no answer passed"
