from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.report import frontier, rows
from pipeline.report.gather import Gathered

UP_UP_DOWN = [True, True, False]
# Few distinct values, so that ties and equal points come up often.
POINTS = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=2),
    st.tuples(*[st.integers(0, 4).map(float) for _ in range(3)]),
    max_size=12,
)


def is_dominated_by_definition(own: tuple[float, ...], theirs: tuple[float, ...]) -> bool:
    """No axis worse, one better: written out for the axes up, up, down."""
    no_worse = theirs[0] >= own[0] and theirs[1] >= own[1] and theirs[2] <= own[2]
    better = theirs[0] > own[0] or theirs[1] > own[1] or theirs[2] < own[2]
    return no_worse and better


@given(POINTS)
def test_equals_the_definition(points):
    assert frontier.dominators(points, UP_UP_DOWN) == {
        name: [rival for rival, theirs in points.items() if is_dominated_by_definition(own, theirs)]
        for name, own in points.items()
    }


@given(POINTS)
def test_some_point_is_on_the_frontier_and_it_covers_the_rest(points):
    beaten_by = frontier.dominators(points, UP_UP_DOWN)
    best = {name for name, rivals in beaten_by.items() if not rivals}
    assert bool(best) == bool(points)
    assert all(best & set(rivals) for name, rivals in beaten_by.items() if name not in best)


def test_equal_points_share_the_frontier():
    assert frontier.dominators({"a": (1, 1), "b": (1, 1)}, [True, True]) == {"a": [], "b": []}


def test_only_variants_that_are_ok_and_complete_take_part(project, build, four_variants):
    fp16, int8, int4, failed = four_variants
    no_memory = replace(int4, speed=build.speed("int4-gptq", processes=[]))
    params = project.write(fp16, int8, no_memory, failed)
    table = rows.build(params, Gathered((fp16, int8, no_memory, failed), build.environment, ()))
    found = {row.variant: (row.on_frontier, row.dominated_by) for row in table}
    assert found == {
        "fp16": (True, ()),
        "int8": (False, ("fp16",)),
        "int4-gptq": (False, ()),
        "int4-awq": (False, ()),
    }
