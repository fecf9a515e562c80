from __future__ import annotations

import pytest

from pipeline.metrics import display


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (display.memory, 257 * 2**20, "257 MiB"),
        (display.memory, 1.5 * 2**30, "1.50 GiB"),
        (display.memory, 2**20, "1.00 MiB"),
        (display.milliseconds, 0.0423, "42.3 ms"),
        (display.milliseconds, 1.2, "1200 ms"),
        (display.share, 0.6167, "61.7 %"),
        (display.points, -0.0125, "−1.2 pp"),
        (display.points, 0.0125, "+1.2 pp"),
        (display.points, -0.0001, "0.0 pp"),
        (display.ratio, 1.234, "1.23×"),
        (display.fine_ratio, 1.02345, "1.023×"),
        (display.perplexity, 16.704, "16.70"),
        (display.perplexity, 544698.2, "544,698"),
        (display.nats, 0.0123456, "0.0123"),
        (display.nats, 12.3456, "12.3"),
        (display.nats, 0.0000123456, "1.23e-05"),
        (display.nats, 0, "0"),
        (display.rate, 12.34, "12.3"),
        (display.rate, 1234.5, "1234"),
        (display.money, 12.345, "12.35"),
        (display.money, 0.0000123456, "0.0000123"),
        (display.money, 0.5, "0.500"),
        (display.money, 0, "0.00"),
        (display.small_memory, 23040, "22.5 KiB"),
        (display.per_second, 1.234, "1.23"),
    ],
)
def test_shown(show, value, text):
    assert show(value) == text


def test_a_span_says_a_shared_unit_once():
    assert display.span(display.points, -0.058, 0.004) == "−5.8 to +0.4 pp"
    assert display.span(display.memory, 500 * 2**20, 2**30) == "500 MiB to 1.00 GiB"
    assert display.span(display.rate, 1, 2) == "1.0 to 2.0"
