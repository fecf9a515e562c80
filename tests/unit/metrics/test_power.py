"""How many items a question takes, and what so many items can tell."""

from __future__ import annotations

import itertools
import math

import pytest

from pipeline.metrics import paired_tests, power
from pipeline.metrics.paired_proportions import null_variance


def test_items_needed_without_any_change():
    # z² V0 / margin² with V0 = 0.08 × 0.92: 3.841459 × 0.92 / 0.08 = 44.18
    assert power.items_needed(0.08, 0) == 45


def test_items_needed_by_hand():
    # V0 for lost = won = 0.05 at -0.08: B = -0.16 - 0.1 = -0.26, C = 0.05 × 0.08 × 1.08 = 0.00432,
    # q = (√(0.0676 - 0.03456) + 0.26) / 4 = 0.110442, V0 = 0.220883 - 0.0864 = 0.134483
    # (1.959964 × √0.134483 + 0.841621 × √0.1)² / 0.0064 = (0.718754 + 0.266144)² / 0.0064 = 151.57
    assert power.items_needed(0.08, 0.1) == 152
    # Half of it: z(0.5) = 0, so 0.718754² / 0.0064 = 80.7
    assert power.items_needed(0.08, 0.1, power=0.5) == 81


def test_items_needed_grow_with_clusters():
    assert power.design_effect(4, 0.1) == pytest.approx(1.3)
    assert power.design_effect(1, 0.5) == 1
    # 1.3 × 151.57 = 197.04
    assert power.items_needed(0.08, 0.1, design_effect=1.3) == 198


def test_a_detectable_drop_by_hand():
    # ψ = 0.1, n = 200: d² (200 + 0.708326) - 2 √200 × 1.959964 × √0.1 d + 0.1 (3.841459 - 0.708326) = 0
    # d = (17.530451 + √(307.31671 - 251.541)) / 401.416652 … halved: (8.765225 + √(76.829176 - 62.885347)) / 200.708326
    assert power.detectable_drop(200, 0.1) == pytest.approx((8.765225 + 3.734144) / 200.708326, abs=1e-5)
    assert power.detectable_drop(260, 0.1, design_effect=1.3) == pytest.approx(power.detectable_drop(200, 0.1))


def test_a_drop_makes_at_least_its_own_share_change():
    # n d = (1.959964 + 0.841621 √(1 - d))² at ψ = d
    found = power.detectable_drop(100, 0)
    assert 100 * found == pytest.approx((1.959964 + 0.841621 * math.sqrt(1 - found)) ** 2, rel=1e-5)
    assert power.detectable_drop(100, 0.02) == pytest.approx(found)


def test_few_items_find_nothing():
    with pytest.raises(ValueError, match="finds no drop with fewer than 4 items"):
        power.detectable_drop(3, 0.1)
    assert power.detectable_drop(4, 0.1) <= 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"margin": 0, "discordant": 0.1}, "margin is 0; it must be above 0 and below 1"),
        ({"margin": 0.1, "discordant": 1.5}, "discordant is 1.5; it must be from 0 to 1"),
        ({"margin": 0.1, "discordant": 0.1, "power": 1}, "power is 1; it must be from 0.5 and below 1"),
        ({"margin": 0.1, "discordant": 0.1, "design_effect": 0}, "design_effect is 0; it must be above 0"),
    ],
)
def test_what_cannot_be_asked(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        power.items_needed(**arguments)


def splits(n: int, lost: float, won: float):
    """Each likely number of lost and won items with its probability (trinomial)."""
    from scipy.stats import multinomial

    for losses, wins in itertools.product(range(60), repeat=2):
        chance = float(multinomial.pmf([losses, wins, n - losses - wins], n, [lost, won, 1 - lost - won]))
        if chance > 1e-7:
            yield losses, wins, chance


@pytest.mark.parametrize(("margin", "discordant"), [(0.08, 0.1), (0.05, 0.05)])
def test_so_many_items_pass_the_gate_in_four_of_five_cases(margin, discordant):
    """Exact: the interval's low end is above -margin where the score test rejects -margin."""
    n = power.items_needed(margin, discordant)

    def passes(losses: int, wins: int) -> bool:
        mean = (wins - losses) / n
        return mean + margin >= power.Z * math.sqrt(null_variance(losses / n, wins / n, -margin) / n)

    found = sum(chance for lost, won, chance in splits(n, discordant / 2, discordant / 2) if passes(lost, won))
    assert 0.78 <= found <= 0.85


@pytest.mark.parametrize(("n", "discordant"), [(100, 0.1), (200, 0.2)])
def test_a_detectable_drop_is_found_in_four_of_five_cases(n, discordant):
    drop = power.detectable_drop(n, discordant)
    changed = max(drop, discordant)
    lost, won = (changed + drop) / 2, (changed - drop) / 2
    found = sum(c for losses, wins, c in splits(n, lost, won) if paired_tests.mcnemar_mid_p(losses, wins) < 0.05)
    assert 0.78 <= found <= 0.88
