"""What is refused of the gates in params.yaml, and what may be written there."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from unit.changed_params import ROOT, SHIPPED, Change, problems, put

from pipeline import gate_bounds, params


def asked(gate: dict[str, Any], *changes: Change) -> list[str]:
    return problems(put(gate, "gates", "asked"), *changes)


def accepted(gate: dict[str, Any]) -> params.Gate:
    raw = copy.deepcopy(SHIPPED)
    raw["gates"] = {"asked": gate}
    return params.parse(raw).gates["asked"]


# --- what it is of ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "problem"),
    [
        (
            {"metric": "speedup", "at_least": 1.3, "workload": "instructions"},
            "workload: no workload 'instructions'; did you mean 'instruction'?",
        ),
        (
            {"metric": "quality_delta", "at_least": -0.02, "eval_set": "suport-desk"},
            "eval_set: no eval set 'suport-desk'; did you mean 'support-desk'?",
        ),
        (
            {"metric": "quality_delta", "at_least": -0.02, "eval_set": "support-desk", "category": "polciy"},
            "category: no item of support-desk is of category 'polciy'; did you mean 'policy'?",
        ),
        (
            {"metric": "speedup", "at_least": 1.3, "workload": "instruction", "concurrency": 16},
            "concurrency: instruction is measured at 1, 2, 4, 8, not at 16; name one of these, or add it to "
            "benchmark.sweep.concurrency of the swept workload",
        ),
        (
            {"metric": "speedup", "at_least": 1.3, "workload": "code", "concurrency": 8},
            "concurrency: code is measured at 1, not at 8; name one of these, or add it to "
            "benchmark.sweep.concurrency of the swept workload",
        ),
        ({"metric": "speedup", "at_least": 1.3, "concurrency": 8}, "concurrency: give the workload that it is of"),
        (
            {"metric": "quality_delta", "at_least": -0.02, "category": "policy"},
            "category: give the eval_set that it is of",
        ),
        (
            {"metric": "peak_memory_bytes", "at_most": "24 GiB", "workload": "code"},
            "workload: peak_memory_bytes is not of one workload",
        ),
        (
            {"metric": "kld_mean", "at_most": 0.1, "eval_set": "support-desk"},
            "eval_set: kld_mean is not of one eval set",
        ),
        (
            {
                "metric": "worst_category_delta",
                "at_least": -0.05,
                "eval_set": "support-desk",
                "category": "policy",
            },
            "category: worst_category_delta is not of one category",
        ),
    ],
)
def test_a_part_that_there_is_not_is_refused(gate: dict[str, Any], problem: str) -> None:
    assert asked(gate) == [f"gates.asked.{problem}"]


def test_all_mistakes_of_all_gates_are_told_at_once() -> None:
    found = asked(
        {"metric": "speedup", "at_most": 130, "workload": "x", "concurrency": 8},
        put({"metric": "qualty", "at_least": 0.5}, "gates", "other"),
    )
    assert [problem.partition(" ")[0] for problem in found] == [
        "gates.asked.workload:",
        "gates.asked.at_most:",
        "gates.asked.at_most:",
        "gates.other.metric:",
    ]


def test_a_level_that_is_measured_is_accepted() -> None:
    gate = accepted({"metric": "speedup", "at_least": 1.3, "workload": "instruction", "concurrency": 8})
    assert (gate.scope.workload, gate.scope.concurrency) == ("instruction", 8)
    assert accepted({"metric": "speedup", "at_least": 1.3, "workload": "code", "concurrency": 1}).concurrency == 1


def test_categories_are_not_checked_where_the_items_are_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    gate = {"metric": "quality_delta", "at_least": -0.02, "eval_set": "support-desk", "category": "any"}
    assert accepted(gate).category == "any"


# --- its bound -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (
            {"metric": "quality_delta", "at_most": 0.02},
            "at_most: higher is better for quality_delta, so give at_least; a drop of 2 points at most is at_least: "
            "-0.02",
        ),
        ({"metric": "quality", "at_most": 0.5}, "at_most: higher is better for quality, so give at_least"),
        ({"metric": "ttft_s_p95", "at_least": 0.5}, "at_least: lower is better for ttft_s_p95, so give at_most"),
        (
            {"metric": "ttft_s_p95", "at_most": 500},
            "at_most: ttft_s_p95 is in seconds, and no request goes on for 120 (benchmark.pairing.request_timeout_s); "
            "write the unit, as in `500 ms`",
        ),
        (
            {"metric": "peak_memory_bytes", "at_most": 24},
            "at_most: peak_memory_bytes is in bytes, and 24 of them are next to none; give a unit, as in `24 GiB`",
        ),
        (
            {"metric": "failure_rate", "at_most": 2},
            "at_most: failure_rate is a share, so 2 is out of reach; 2 points are 0.02 or `2 pp`",
        ),
        (
            {"metric": "speedup", "at_least": 130},
            "at_least: speedup is a multiple, and 130 times is out of reach; 30 % more is 1.3",
        ),
        (
            {"metric": "quality_delta", "at_least": -8},
            "at_least: quality_delta is a share, so -8 is out of reach; -8 points are -0.08 or `-8 pp`",
        ),
        ({"metric": "quality", "at_least": -0.1}, "at_least: quality is a share of 0 to 1, so -0.1 says nothing"),
        (
            {"metric": "top1_agreement", "at_most": 0.5},
            "at_most: higher is better for top1_agreement, so give at_least",
        ),
        (
            {"metric": "speedup", "at_least": "30 %"},
            "at_least: must be a number in multiples, or an amount with its unit",
        ),
        (
            {"metric": "weight_bytes", "at_most": -1.0, "relative": True},
            "at_most: a relative bound is a multiple of the baseline's value, so -1 says nothing; give one above 0",
        ),
        (
            {"metric": "weight_bytes", "at_most": 1e9, "relative": True},
            "at_most: a relative bound is a multiple of the baseline's value, and 1e+09 times is out of reach",
        ),
        ({"metric": "weight_bytes", "at_most": -1}, "at_most: weight_bytes is never below 0, so -1 says nothing"),
        (
            {"metric": "quality_delta", "at_least": "-200 pp"},
            "at_least: quality_delta is a share, so -2 is out of reach",
        ),
    ],
)
def test_a_bound_that_cannot_be_meant_is_refused(gate: dict[str, Any], words: str) -> None:
    [problem] = asked(gate)
    assert problem.startswith(f"gates.asked.{words}")


@pytest.mark.parametrize(
    ("metric", "key", "text", "bound"),
    [
        ("peak_memory_bytes", "at_most", "24 GiB", 24 * 2**30),
        ("peak_memory_bytes", "at_most", "24GB", 24e9),
        ("peak_memory_bytes", "at_most", "1.5 MiB", 1.5 * 2**20),
        ("ttft_s_p95", "at_most", "500 ms", 0.5),
        ("ttft_s_p95", "at_most", "0.5 s", 0.5),
        ("failure_rate", "at_most", "2 %", 0.02),
        ("quality_delta", "at_least", "-7 pp", -0.07),
        ("quality_delta", "at_least", "−2.5 pp", -0.025),
        ("quality", "at_least", "90%", 0.9),
        ("speedup", "at_least", "1.3×", 1.3),
        ("speedup", "at_least", "1.3x", 1.3),
    ],
)
def test_a_bound_may_be_written_with_its_unit(metric: str, key: str, text: str, bound: float) -> None:
    gate = accepted({"metric": metric, key: text})
    assert (getattr(gate, key), gate.bound) == (bound, bound)


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (
            {"metric": "peak_memory_bytes", "at_most": "24 apples"},
            "must be a number in bytes, or an amount with its unit, as in 24 GiB, got '24 apples'",
        ),
        (
            {"metric": "ttft_s_p95", "at_most": "500 GiB"},
            "must be a number in seconds, or an amount with its unit, as in 500 ms, got '500 GiB'",
        ),
        (
            {"metric": "quality_delta", "at_least": "2 points"},
            "must be a number in shares of one, or an amount with its unit, as in 2 % or 2 pp, got '2 points'",
        ),
        ({"metric": "speedup", "at_least": "fast"}, "must be a number in multiples, or an amount with its unit"),
        ({"metric": "kld_mean", "at_most": "0.1 nats"}, "must be a number, got '0.1 nats'"),
        (
            {"metric": "weight_bytes", "at_most": "24 GiB", "relative": True},
            "must be a number: a relative bound is a multiple of the baseline's value, as in 0.5, got '24 GiB'",
        ),
    ],
)
def test_an_amount_in_no_unit_of_the_metric_is_refused(gate: dict[str, Any], words: str) -> None:
    [problem] = asked(gate)
    assert problem.partition(": ")[2].startswith(words)


def test_an_unknown_metric_has_no_units() -> None:
    with pytest.raises(ValueError, match="must be a number"):
        gate_bounds.parse("24 GiB", "no_metric", relative=False)


# --- the page --------------------------------------------------------------------------------------------------


def test_the_examples_of_the_page_are_accepted() -> None:
    page = (ROOT / "docs" / "gates.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0] for block in page.split("```yaml\n")[1:]]
    raw = copy.deepcopy(SHIPPED)
    for block in blocks:
        raw["gates"] = yaml.safe_load(block)["gates"]
        assert params.parse(raw).gates
    assert {name for name in params.Gate.model_fields if f"`{name}`" not in page} == set()
