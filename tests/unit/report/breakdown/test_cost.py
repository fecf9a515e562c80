from __future__ import annotations

from pipeline.report.breakdown import cost


def test_cost_of_tokens_and_of_passing_answers(gathered, build):
    """0.36 per hour is 0.0001 per second; 32 tokens in 1.65 s; 3 of 4 items pass."""
    params, found = gathered(build.evidence("fp16", [1, 1, 1, 0]), build.failed("int8"))
    [line] = cost.lines(found, params)
    assert line.workload == "instruction"
    # 0.0001 / (32 / 1.65) × 10⁶; 0.0001 × 1.65 / 0.75
    assert line.per_million_tokens[0].text == "5.16"
    assert line.per_passing_answer[0].text == "0.000220"
    assert [cell.text for cell in (line.per_million_tokens[1], line.per_passing_answer[1])] == ["–", "–"]


def test_without_a_price_there_is_no_cost(project, gathered, build):
    project.raw["serving"]["price_per_hour"] = None
    params, found = gathered(build.evidence("fp16"))
    assert cost.lines(found, params) == []
