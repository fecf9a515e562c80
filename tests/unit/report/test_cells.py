from __future__ import annotations

import pytest

from pipeline.metrics import validity
from pipeline.metrics.catalogue import BY_NAME
from pipeline.metrics.pairing import Speedup
from pipeline.records import known, missing
from pipeline.report import cells
from pipeline.report.cells import Cell

SPEEDUP, DECODE = BY_NAME["speedup"], BY_NAME["decode_tokens_per_s"]


def test_a_ratio_with_its_interval():
    found = Speedup(processes=3, pairs=21, ratio=0.68, low=known(0.56), high=known(0.83))
    assert str(cells.of_ratio(SPEEDUP, found)) == "0.68× (0.56 to 0.83)"


def test_a_ratio_without_an_interval_says_why():
    few = missing("an interval needs 3 pairs of processes, there are 2")
    cell = cells.of_ratio(SPEEDUP, Speedup(processes=2, pairs=2, ratio=0.68, low=few, high=few))
    assert cell == Cell("0.68×", reason="no interval: an interval needs 3 pairs of processes, there are 2")


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (validity.invalid(["2.00 MiB of the worker were in swap"]), validity.INVALID),
        ("benchmark invalid: parameters on the CPU", validity.INVALID),
        ("P95 needs 20 readings, there are 9", cells.DASH),
    ],
)
def test_a_number_that_must_not_be_used_is_invalid_and_a_missing_one_a_dash(reason, text):
    assert cells.reading(DECODE, missing(reason)) == Cell(text, reason=reason)
    assert cells.of_ratio(SPEEDUP, reason) == Cell(text, reason=reason)


def test_bounds_have_no_column_and_amounts_have_a_currency():
    names = [metric.name for metric in (*cells.COLUMNS, *cells.MORE_COLUMNS)]
    assert not [name for name in names if name.endswith(("_ci_low", "_ci_high"))]
    assert {"speedup", "ttft_speedup", "cost_per_million_tokens"} <= set(names)
    assert cells.title(BY_NAME["cost_per_million_tokens"], "EUR") == "Cost per million tokens, EUR"
    assert cells.title(SPEEDUP, "EUR") == SPEEDUP.title


def test_a_score_can_be_sorted_by_and_shows_an_interval_only_where_it_is_one():
    below, above = known(1.1), known(1.15)
    assert str(cells.score(known(1.12), below, above)) == "1.12 (1.10 to 1.15)"
    assert cells.score(known(1.0), known(1.0), known(1.0)) == Cell("1.00")
    few = missing("too few processes")
    assert cells.score(known(1.12), few, few) == Cell("1.12", reason="no interval: too few processes")
    assert cells.score(few, few, few) == Cell(cells.DASH, reason="too few processes")
    shown = [cells.score(known(1.12), *ends) for ends in ((below, above), (known(1.12), known(1.12)), (few, few))]
    assert [cell.value for cell in shown] == [1.12] * 3
