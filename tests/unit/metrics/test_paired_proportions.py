"""Tango's interval of a difference of two pass rates on the same items."""

from __future__ import annotations

import math

import pytest

from pipeline.metrics.paired_proportions import null_variance, score_interval

Z = 1.959963984540054


def test_the_variance_under_no_difference_is_mcnemars():
    # Lost and won are equally likely then: 0.07 each.
    assert null_variance(0.10, 0.04, 0) == pytest.approx(0.14)


def test_the_variance_under_a_difference_by_hand():
    # B = (2 - 0.04 + 0.1)(-0.08) - 0.14 = -0.3048; C = -0.1 (-0.08)(1.08) = 0.00864
    # q = (√(0.09290304 - 0.06912) + 0.3048) / 4 = (0.154218 + 0.3048) / 4 = 0.114755; 2q - 0.0864 = 0.143109
    assert null_variance(0.10, 0.04, -0.08) == pytest.approx(0.143109, abs=1e-6)
    # Nothing was lost, but a drop of 0.08 takes 0.08 lost: its variance is 0.08 × 0.92.
    assert null_variance(0, 0, -0.08) == pytest.approx(0.0736)


def test_a_published_example():
    """Airway hyper-responsiveness, before and after: Fagerland, Lydersen & Laake 2014, Stat. Med. 33:2850."""
    assert score_interval(7 / 21, 1 / 21, 21, Z) == pytest.approx((-0.517, -0.026), abs=5e-4)


def test_nothing_differed():
    # D² = z² D (1 - D) / n, so D = z² / (n + z²)
    half = Z**2 / (100 + Z**2)
    assert score_interval(0, 0, 100, Z) == pytest.approx((-half, half))


@pytest.mark.parametrize(("lost", "won", "n"), [(0.1, 0.04, 100), (0.02, 0, 50), (0.5, 0.5, 8), (0.03, 0.2, 61.7)])
def test_the_ends_are_where_the_test_begins_to_reject(lost, won, n):
    for end in score_interval(lost, won, n, Z):
        assert abs(won - lost - end) == pytest.approx(Z * math.sqrt(null_variance(lost, won, end) / n), rel=1e-6)


def test_both_sides_mirror_each_other():
    low, high = score_interval(0.12, 0.03, 80, Z)
    assert score_interval(0.03, 0.12, 80, Z) == pytest.approx((-high, -low))


def test_everything_lost_ends_at_the_edge():
    # At D half of the items, (1 - D) / 2, are lost at most and the others won: (1 + D)² = z² (1 - D²) / n
    assert score_interval(1, 0, 10, Z) == pytest.approx((-1, (Z**2 - 10) / (Z**2 + 10)))
