"""What would have to give where nothing passes, or to let a variant pass."""

from __future__ import annotations

from dataclasses import replace

from pipeline.params import Gate
from pipeline.quality_records import Flaw
from pipeline.report import nearest_to_passing
from pipeline.report.analysis import analyse

SCORES = [1.0] * 72 + [0.0] * 48


def test_what_would_have_to_give_is_of_those_nearest_to_passing(project, build):
    """a and fp16 fail one gate, c fails three, b and its twin leave one undecided, d did not work."""
    project.raw["gates"] = {
        "quality-drop": {"metric": "quality_delta", "at_least": -0.08},
        "speed": {"metric": "speedup", "at_least": 0.9},
        "rate": {"metric": "decode_tokens_per_s", "at_least": 15},
    }
    lost_12 = [0.0] * 12 + SCORES[12:]
    worse = [0.0] * 40 + SCORES[40:]
    variants = [
        build.evidence("a", worse),
        build.evidence("b", lost_12),
        build.evidence("twin", lost_12),
        build.evidence("c", worse, tpot_s=0.1),
        build.failed("d"),
    ]
    found = analyse(project.write(build.evidence("fp16", SCORES, tpot_s=0.1), *variants)).decision
    assert found.pick is None
    # Twelve of 120 are −10 pp: more items would decide for FAIL, so their number is not what is missing.
    gives = "would pass if quality-drop were −16.7 pp instead of −8.0 pp"
    assert found.would_have_to_give == [f"b {gives}", f"twin {gives}"]
    assert found.headline.endswith(f" {found.would_have_to_give[0]}.")


def test_how_many_more_items_would_bring_a_pass_is_told(project, build):
    project.raw["gates"] = {"drop": {"metric": "quality_delta", "at_least": -0.03}}
    ours = [build.evidence(name, [0.0] * 2 + SCORES[2:]) for name in ("fp16", "int4")]
    found = analyse(project.write(build.evidence("fp16", SCORES), *ours[1:])).decision
    assert found.pick == "fp16"
    verdict = next(each for each in found.variants if each.variant == "int4").gates[0]
    gate = Gate(metric="quality_delta", at_least=-0.03)
    said = nearest_to_passing._condition(verdict, gate)
    assert said.endswith(f" (about {verdict.more:,} more items would decide it)")


def test_a_relative_bound_would_have_to_be_another_multiple(project, build):
    project.raw["gates"] = {"size": {"metric": "weight_bytes", "at_most": 0.3, "relative": True}}
    found = analyse(
        project.write(build.evidence("fp16", SCORES), build.evidence("int4", SCORES, weight_bytes=90 * 2**20))
    ).decision
    assert found.pick is None
    multiple = 90 / 257
    assert found.would_have_to_give[1] == "int4 would pass if size were 0.351 × the baseline's instead of 0.3 ×"
    assert 0.350 < multiple < 0.351


def test_of_a_baseline_of_0_the_bound_itself_is_named(project, build):
    """`3 instead of 2 ×` would be no multiple of it."""
    project.raw["gates"] = {
        "empties": {"metric": "empty_outputs", "at_most": 2.0, "relative": True},
        "size": {"metric": "weight_bytes", "at_most": 0.5, "relative": True},
    }
    answers = build.scored("int8", build.items(SCORES), flaws={Flaw.EMPTY: 3})
    ours = replace(build.evidence("int8", SCORES, weight_bytes=90 * 2**20), quality=(answers,))
    found = analyse(project.write(build.evidence("fp16", SCORES), ours)).decision
    assert found.would_have_to_give[1] == "int8 would pass if empties were 3 instead of 2 × the baseline's 0"
