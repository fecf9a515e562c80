from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.metrics import keeping
from pipeline.sensitivity_records import Group


def group(name: str, kld: float, extra_bytes: int) -> Group:
    return Group(modules=[name], kld=kld, extra_bytes=extra_bytes)


def extra(groups: list[Group]) -> int:
    return sum(found.extra_bytes for found in groups)


def won(groups: list[Group]) -> float:
    return sum(found.kld for found in groups)


@st.composite
def some_groups(draw: st.DrawFn) -> list[Group]:
    sizes = draw(st.lists(st.tuples(st.floats(0, 10), st.integers(1, 1000)), max_size=9))
    return [group(f"m{place}", *size) for place, size in enumerate(sizes)]


def test_the_most_per_byte_comes_first_and_what_does_not_fit_makes_room_for_what_does() -> None:
    first, too_large, last, dear = group("a", 4, 10), group("b", 30, 100), group("c", 1, 9), group("d", 1, 11)
    assert keeping.choose([dear, last, too_large, first], 30) == [dear, last, first], "in the order given"
    assert keeping.choose([dear, last, too_large, first], 29) == [last, first]
    assert keeping.choose([dear, last, too_large, first], 19) == [last, first]
    assert keeping.choose([dear, last, too_large, first], 9) == [last]
    assert keeping.choose([dear, last, too_large, first], 8) == []


def test_what_loses_nothing_is_left_alone_and_what_costs_nothing_is_kept() -> None:
    assert keeping.choose([group("a", 0.0, 1), group("b", 0.1, 0), group("c", 0.1, -5)], 0) == [
        group("b", 0.1, 0),
        group("c", 0.1, -5),
    ]


@given(some_groups(), st.integers(0, 4000))
def test_the_budget_holds_and_nothing_that_loses_would_still_fit(groups: list[Group], budget: int) -> None:
    kept = keeping.choose(groups, budget)
    assert extra(kept) <= budget
    assert all(found.extra_bytes > budget - extra(kept) for found in groups if found.kld > 0 and found not in kept)


@given(some_groups(), st.integers(0, 4000))
def test_nothing_kept_is_both_larger_and_worth_less_than_something_left(groups: list[Group], budget: int) -> None:
    kept = keeping.choose(groups, budget)
    left = [found for found in groups if found not in kept]
    assert not any(a.kld < b.kld and a.extra_bytes >= b.extra_bytes for a in kept for b in left)


@given(some_groups(), st.integers(0, 4000))
def test_it_or_one_group_alone_wins_half_of_the_best_there_is(groups: list[Group], budget: int) -> None:
    """The bound of the greedy rule (Dantzig 1957)."""
    sets = [list(some) for size in range(len(groups) + 1) for some in combinations(groups, size)]
    best = max(won(some) for some in sets if extra(some) <= budget)
    alone = max((found.kld for found in groups if found.extra_bytes <= budget), default=0.0)
    assert max(won(keeping.choose(groups, budget)), alone) >= 0.5 * best - 1e-9


@given(some_groups())
def test_with_room_for_all_whatever_loses_is_kept(groups: list[Group]) -> None:
    assert keeping.choose(groups, extra(groups)) == [found for found in groups if found.kld > 0]
