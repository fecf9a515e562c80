from __future__ import annotations

import socket

import pytest

from pipeline.metrics import intervals
from pipeline.metrics.aggregation import METRIC_FILE, aggregate_scores


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("scores", [[1, 0, 1, 1, 0, 1], [0.5, 0.25, 1.0, 0.1, 0.5, 0.75]])
@pytest.mark.parametrize(
    "layout",
    [
        [{}] * 6,
        [{"weight": 3.0}] * 3 + [{}] * 3,
        [{"cluster": "document-1"}] * 2 + [{"cluster": "document-2"}] * 3 + [{}],
    ],
)
def test_evaluate_gives_our_interval_without_the_network(scores, layout, build):
    rows = enumerate(zip(scores, layout, strict=True))
    results = [build.item(f"item-{number}", score, **changes) for number, (score, changes) in rows]
    found = aggregate_scores(results, seed=3)
    assert found.n == 6
    assert found == intervals.mean_interval(results, 3)


def test_no_results_are_an_error():
    with pytest.raises(ValueError, match="no scores"):
        aggregate_scores([], seed=0)


def test_the_metric_file_has_one_module_per_import_line():
    imports = [line for line in METRIC_FILE.read_text().splitlines() if line.startswith("import ")]
    assert imports
    assert not any("," in line for line in imports)
