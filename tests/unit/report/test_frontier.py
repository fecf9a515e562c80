from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.errors import UserError
from pipeline.metrics.axes import parse_axis
from pipeline.records import known
from pipeline.report import frontier, rows
from pipeline.report.analysis import analyse
from pipeline.report.frontier_words import lines

SCORES = [1.0] * 72 + [0.0] * 48

UP_UP_DOWN = [True, True, False]
# Few distinct values, so that ties and equal points come up often.
NUMBER = st.integers(0, 4).map(float)
POINT = st.tuples(NUMBER, NUMBER, NUMBER)
NAME = st.sampled_from("abcdefg")
POINTS = st.dictionaries(NAME, POINT, max_size=7)
HALF_WIDTHS = st.dictionaries(NAME, POINT, min_size=7, max_size=7)
"""Of each variant's interval on each axis, all symmetric: what is not told apart then does not pass on."""


def apart(points, halves):
    """Whether two intervals of these half-widths are clear of each other."""

    def clear(one, other, axis):
        return abs(points[one][axis] - points[other][axis]) > halves[one][axis] + halves[other][axis]

    return clear


def beats_by_definition(points, halves, one, other):
    """Better beyond the uncertainty on one axis, and the other's value is better on none: for the axes up, up, down."""
    (a, b, c), (x, y, z) = points[one], points[other]
    (da, db, dc), (dx, dy, dz) = halves[one], halves[other]
    other_is_better_somewhere = x > a or y > b or z < c
    clearly_better_somewhere = a - da > x + dx or b - db > y + dy or c + dc < z - dz
    return clearly_better_somewhere and not other_is_better_somewhere


def beats_by_ties(points, ties, one, other):
    """No axis has intervals; differences up to the axis's tie are none: for the axes up, up, down."""
    gains = [(mine - theirs) * way for mine, theirs, way in zip(points[one], points[other], (1, 1, -1), strict=True)]
    beyond = [abs(gain) > tie for gain, tie in zip(gains, ties, strict=True)]
    worse = any(gain < 0 and clear for gain, clear in zip(gains, beyond, strict=True))
    return not worse and any(gain > 0 and clear for gain, clear in zip(gains, beyond, strict=True))


def reach(beats):
    """Who comes to whom by following who beats whom."""
    reached = set(beats)
    for _ in beats:
        reached |= {(a, d) for a, b in reached for c, d in reached if b == c}
    return reached


def stable_sets(names, beats):
    """By trying every set: nobody in it is beaten from within, everybody outside is."""
    subsets = chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))
    return [
        set(subset)
        for subset in subsets
        if all(any((b, a) in beats for b in subset) is (a not in subset) for a in names)
    ]


def check_definition(place, points, beats):
    assert list(place) == list(points)
    [best] = stable_sets(list(points), beats)
    assert {name for name, rivals in place.items() if not rivals} == best
    for name, rivals in place.items():
        assert rivals == [b for b in points if b in best and (b, name) in beats]


def found(points, halves):
    return frontier.dominators(points, UP_UP_DOWN, apart(points, halves))


@given(POINTS, HALF_WIDTHS)
def test_equals_the_definition(points, halves):
    beats = {(a, b) for a in points for b in points if beats_by_definition(points, halves, a, b)}
    check_definition(found(points, halves), points, beats)


@given(POINTS, st.tuples(*[st.sampled_from([0.0, 1.0, 2.0])] * 3))
@example({"a": (3.0, 2.0, 2.0), "b": (4.0, 3.0, 4.0), "c": (2.0, 4.0, 3.0)}, (1.0, 1.0, 1.0))
def test_values_within_a_tie_count_as_one_and_what_beats_in_a_circle_does_not_count(points, ties):
    def clear(one, other, axis):
        return abs(points[one][axis] - points[other][axis]) > ties[axis]

    place = frontier.dominators(points, UP_UP_DOWN, clear, lambda *pair: not clear(*pair))
    beats = {(a, b) for a in points for b in points if beats_by_ties(points, ties, a, b)}
    reached = reach(beats)
    check_definition(place, points, {(a, b) for a, b in beats if (b, a) not in reached})


@given(POINTS, HALF_WIDTHS)
def test_nobody_beats_in_a_circle_where_values_count_as_they_are(points, halves):
    beats = {(a, b) for a in points for b in points if beats_by_definition(points, halves, a, b)}
    clear = apart(points, halves)
    assert beats == {(a, b) for a in points for b in points if frontier.beats(a, b, points, UP_UP_DOWN, clear)}
    assert all(a != b for a, b in reach(beats))


@given(POINTS, HALF_WIDTHS, POINT)
def test_adding_a_dominated_point_changes_nothing_for_the_others(points, halves, extra):
    before = found(points, halves)
    after = found({**points, "x": extra}, {**halves, "x": (0.0, 0.0, 0.0)})
    if after.pop("x"):
        assert after == before


@given(POINTS, HALF_WIDTHS, NAME)
def test_equal_points_share_the_frontier(points, halves, twin):
    if twin in points:
        place = found({**points, "x": points[twin]}, {**halves, "x": halves[twin]})
        assert (place["x"] == []) is (place[twin] == [])
        assert set(place["x"]) == set(place[twin])


@given(POINTS)
def test_without_uncertainty_it_is_the_usual_frontier(points):
    """No worse on any axis and better on one; written out for the axes up, up, down."""

    def pareto(own, theirs):
        no_worse = theirs[0] >= own[0] and theirs[1] >= own[1] and theirs[2] <= own[2]
        return no_worse and theirs != own

    place = frontier.dominators(points, UP_UP_DOWN)
    assert {name for name, rivals in place.items() if not rivals} == {
        name for name, own in points.items() if not any(pareto(own, theirs) for theirs in points.values())
    }


def test_beating_does_not_pass_on_so_one_off_the_frontier_beats_nobody():
    """a beats x by the first axis, x beats b by the second one, on which a is known too badly to beat b."""
    points = {"a": (4.0, 4.0, 0.0), "x": (2.0, 4.0, 0.0), "b": (2.0, 3.0, 0.0)}
    halves = {"a": (0.5, 2.0, 0.0), "x": (0.5, 0.1, 0.0), "b": (1.6, 0.1, 0.0)}
    assert found(points, halves) == {"a": [], "x": ["a"], "b": []}
    assert found({name: points[name] for name in "xb"}, halves) == {"x": [], "b": ["x"]}


# --- of records ------------------------------------------------------------------------------------------------


def placed(project, *variants, axes=None):
    if axes:
        project.raw["decision"]["frontier"] = axes
    analysis = analyse(project.write(*variants))
    return {row.variant: (row.on_frontier, row.dominated_by) for row in analysis.rows}


def test_only_variants_that_are_ok_and_complete_take_part(project, build, four_variants):
    fp16, int8, int4, failed = four_variants
    no_memory = replace(int4, speed=build.speed("int4-gptq", processes=[]))
    assert placed(project, fp16, int8, no_memory, failed) == {
        "fp16": (True, ()),
        "int8": (False, ("fp16",)),
        "int4-gptq": (False, ()),
        "int4-awq": (False, ()),
    }


def test_a_little_memory_saves_nobody_who_is_slower(project, build):
    """The peak is measured without an interval: within the tie it is the same, beyond it a reason to stay."""

    def where(peak_bytes):
        fp16, fast = (build.evidence(name, SCORES, peak_bytes=1000) for name in ("fp16", "fast"))
        slow = build.evidence("slow", SCORES, tpot_s=0.1, peak_bytes=peak_bytes)
        return placed(project, fp16, fast, slow)["slow"]

    assert where(960) == (False, ("fp16", "fast"))
    assert where(940) == (True, ())


def test_a_row_has_no_place_before_it_is_compared(project, four_variants):
    analysis = analyse(project.write(*four_variants))
    assert not any(row.on_frontier for row in rows.build(analysis.params, analysis.gathered))


def test_any_axes(project, build):
    fp16 = build.evidence("fp16", SCORES)
    small = build.evidence("small", SCORES, weight_bytes=2**20, tpot_s=0.1)
    assert placed(project, fp16, small, axes=["weight_bytes"]) == {"fp16": (False, ("small",)), "small": (True, ())}
    assert placed(project, fp16, small, axes=["speedup"]) == {"fp16": (True, ()), "small": (False, ("fp16",))}


def test_what_can_be_chosen_has_a_value_for_some_variant(project, build):
    project.raw["benchmark"]["workloads"]["code"] = {
        **project.raw["benchmark"]["workloads"]["instruction"],
        "concurrency": 2,
    }
    project.raw["benchmark"]["sweep"] = {"workload": "code", "concurrency": [1, 2, 4], "pairs": 1}
    project.raw["eval_sets"]["zh"] = {"weight": 1.0}
    own, code, at_4 = (build.workload(), build.workload("code", concurrency=2), build.workload("code", concurrency=4))
    variants = []
    for name in ("fp16", "int8"):
        made = build.evidence(name, SCORES)
        zh = build.scored(name, build.items(SCORES), "zh")
        variants.append(replace(made, speed=build.speed(name, [own, code, at_4]), quality=(*made.quality, zh)))
    analysis = analyse(project.write(*variants))
    names = [axis.name for axis in frontier.selectable(analysis.params, analysis.rows)]
    # The deciding workload by its plain name; code at 1 stream was not measured, at 2 it is its own.
    assert names == [
        *("quality", "quality@support-desk", "quality@zh"),
        *("speedup", "speedup@code", "speedup@code:4"),
        *("ttft_speedup", "ttft_speedup@code", "ttft_speedup@code:4"),
        *("ttft_s_p50", "ttft_s_p50@code", "ttft_s_p50@code:4"),
        *("aggregate_tokens_per_s", "aggregate_tokens_per_s@code", "aggregate_tokens_per_s@code:4"),
        *("cost_per_million_tokens", "peak_memory_bytes", "weight_bytes", "kld_mean"),
    ]
    place = frontier.place(analysis.rows, [parse_axis(name) for name in names], 0.05)
    assert place == {"fp16": [], "int8": []}


# --- words -----------------------------------------------------------------------------------------------------


def test_the_words_say_who_is_beaten_by_whom_and_beyond_what(project, build):
    swapped = replace(
        build.evidence("int4", SCORES), speed=build.speed("int4", processes=[build.process(swap_bytes=known(2**20))])
    )
    variants = [
        build.evidence("fp16", SCORES),
        build.evidence("twin", SCORES),
        build.evidence("slow", SCORES, tpot_s=0.1),
        swapped,
        build.failed("int8"),
    ]
    told = list(lines(analyse(project.write(*variants)), ["quality", "decode_tokens_per_s"]))
    assert told[0] == "Frontier over Quality (higher is better), Decode tokens/s (higher is better)"
    quality = "Quality 60.0 % (51.1 to 68.3 %)"
    assert told[1] == f"  fp16: on it; {quality}, Decode tokens/s 20.0, by Decode speed vs baseline 1"
    assert told[2] == (
        f"  twin: on it; {quality}, Decode tokens/s 20.0, by Decode speed vs baseline 1.00× (0.97 to 1.03)"
    )
    slow = "Decode speed vs baseline 0.50× (0.49 to 0.51)"
    assert told[3:5] == [
        f"  slow: dominated by fp16, beyond the uncertainty on {slow}",
        f"  slow: dominated by twin, beyond the uncertainty on {slow} against 1.00× (0.97 to 1.03) of twin",
    ]
    assert told[5].startswith("  int4: not placed; no Decode speed vs baseline: INVALID")
    assert told[6] == "  int8: not placed; failed: quantize: out of memory"
    assert told[7:] == ["  fp16 and twin: not told apart on any of these axes"]


def test_every_mistake_in_the_axes_is_told(project, four_variants):
    analysis = analyse(project.write(*four_variants))
    asked = [
        "qualty",
        "speedup@code",
        "speedup@instruction:3",
        "quality@support-desk/tone",
        "speedup",
        "speedup@instruction",
    ]
    with pytest.raises(UserError) as caught:
        list(lines(analysis, asked))
    assert caught.value.problems == (
        "--axes: 'qualty': no metric 'qualty' that variants can be compared on; did you mean 'quality'?",
        "--axes: 'speedup@code': no workload 'code'; allowed: instruction",
        "--axes: 'speedup@instruction:3': instruction is measured with these numbers of streams only: 1",
        "--axes: 'quality@support-desk/tone': support-desk has no category 'tone'; allowed: extraction, intent, policy",
        "--axes: an axis is named twice",
    )
