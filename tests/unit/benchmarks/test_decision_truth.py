"""The bookkeeping of `benchmarks/decision_truth.py`: what counts as wrong, and that worlds are as they say."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy
import pytest
from scipy import stats
from synthetic import variant_decision

from pipeline.records import GateVerdict, Status, Verdict

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "benchmarks"))

import _truth_exact as exact  # noqa: E402
import _truth_judging as judging  # noqa: E402
import _truth_planted as planted  # noqa: E402
import _truth_simulation as simulation  # noqa: E402
import _truth_worlds as worlds  # noqa: E402
from _truth_judging import Truth  # noqa: E402
from _truth_worlds import Category, Quality, Speed, Variant, World  # noqa: E402

DROP = ("drop ≤ 2",)


def quality_world(*categories, gates=DROP):
    return World("test", "test", gates, (Variant("variant", quality=Quality(((1.0, categories),))),))


def line(truth, **verdicts):
    found = Counter({Verdict(name.upper()): count for name, count in verdicts.items()})
    return simulation.Line(quality_world(Category(2, 0, 0)), "variant", DROP[0], truth, found)


def verdicts(world, draws=5):
    return [judged.verdict for judged in simulation.chunk(world, 0, draws, 0)]


# --- what counts as wrong --------------------------------------------------------------------------------------


def test_a_pass_is_wrong_where_the_truth_violates_or_is_at_the_bound_and_a_fail_where_it_meets_or_is_at_it():
    found = {truth: line(truth, **{"pass": 2, "fail": 1, "undecided": 7}) for truth in Truth}
    assert (found[Truth.VIOLATES].wrong_pass, found[Truth.VIOLATES].wrong_fail) == (0.2, None)
    assert (found[Truth.MEETS].wrong_pass, found[Truth.MEETS].wrong_fail) == (None, 0.1)
    assert (found[Truth.AT_BOUND].wrong_pass, found[Truth.AT_BOUND].wrong_fail) == (0.2, 0.1)


def test_the_worst_share_is_that_of_one_line_and_pooled_are_the_draws_that_could_be_wrong():
    lines = [
        line(Truth.VIOLATES, **{"pass": 1, "fail": 9}),
        line(Truth.AT_BOUND, **{"pass": 3, "fail": 6, "undecided": 21}),
        line(Truth.MEETS, **{"pass": 50, "fail": 5, "undecided": 5}),
    ]
    found = simulation.summarize(lines)
    assert (found.wrong_pass, found.wrong_pass_pooled) == (0.1, 4 / 40)
    assert (found.wrong_fail, found.wrong_fail_pooled) == (0.2, 11 / 90)
    assert found.undecided == 26 / 100


def test_without_a_line_that_could_be_wrong_nothing_is():
    assert simulation.summarize([line(Truth.MEETS, **{"pass": 3})]).wrong_pass == 0


def test_code_that_passes_everything_is_found_out(monkeypatch):
    def careless(name, gate, row, baseline):
        return GateVerdict(gate=name, metric=gate.metric, verdict=Verdict.PASS, value=0, bound=0, reason="fine")

    world = quality_world(Category(60, 0.5, 0))
    monkeypatch.setattr(judging.gates, "judge", careless)
    assert simulation.summarize(simulation.tally(world, simulation.chunk(world, 0, 3, 0))).wrong_pass == 1


def test_a_world_is_looked_at_again_where_many_verdicts_were_wrong():
    right = line(Truth.MEETS, **{"pass": 90, "fail": 4, "undecided": 6})
    assert simulation.suspects([right]) == []
    assert simulation.suspects([right, line(Truth.AT_BOUND, **{"pass": 5, "undecided": 95})]) == [right.world]


def test_a_share_of_draws_has_an_interval():
    found = line(Truth.AT_BOUND, **{"pass": 5, "undecided": 95})
    # Wilson: 5 of 100
    assert simulation.uncertainty(found, Verdict.PASS) == pytest.approx((0.0215, 0.1118), abs=1e-4)
    assert simulation.uncertainty(line(Truth.MEETS, **{"pass": 1}), Verdict.PASS) == (0, 1)


# --- computed ---------------------------------------------------------------------------------------------------


def test_shares_of_items_that_stand_alone_are_those_of_the_binomial():
    # With losses alone the gate fails from some count on, and passes up to another one.
    category = Category(200, 0.02, 0)
    [found] = exact.lines(quality_world(category))
    verdicts_by_losses = [
        judging.judge(quality_world(exact.Counted(200, 0.02, 0, losses=lost)), None)[0].verdict for lost in range(20)
    ]
    fails_from = verdicts_by_losses.index(Verdict.FAIL)
    assert verdicts_by_losses[fails_from:] == [Verdict.FAIL] * (20 - fails_from)
    assert found.wrong_fail == pytest.approx(stats.binom.sf(fails_from - 1, 200, 0.02), abs=1e-4)
    passes_below = verdicts_by_losses.index(Verdict.UNDECIDED)
    assert found.wrong_pass == pytest.approx(stats.binom.cdf(passes_below - 1, 200, 0.02), abs=1e-4)
    assert found.draws == simulation.AGAIN
    assert simulation.uncertainty(found, Verdict.FAIL) == (found.wrong_fail, found.wrong_fail)


def test_computed_shares_are_those_of_many_draws():
    world = quality_world(Category(50, 0.1, 0.08))
    [found] = exact.lines(world)
    drawn = simulation.tally(world, simulation.chunk(world, 0, 800, 0))[0]
    for verdict in Verdict:
        low, high = simulation.uncertainty(drawn, verdict)
        assert low - 0.01 < found.share(verdict) < high + 0.01
    assert sum(found.share(verdict) for verdict in Verdict) == pytest.approx(1)


@pytest.mark.parametrize(
    "categories",
    [
        [Category(50, 0.1, 0, cluster=4)],
        [Category(50, 0.1, 0, scale=worlds.GRADED)],
        [Category(50, 0, 0, drift=-0.02)],
        [Category(50, 0.1, 0, critical=5)],
        [Category(50, 0.1, 0), Category(50, 0, 0)],
    ],
)
def test_where_counts_do_not_decide_nothing_is_computed(categories):
    assert exact.lines(quality_world(*categories)) is None


# --- worlds and their truth ------------------------------------------------------------------------------------


def test_the_truth_of_several_sets_is_weighted_by_set_and_by_item():
    # Set of weight 3: (10 × 1 × -0.1 + 10 × 3 × 0.02) / 40 = -0.01; set of weight 1: -0.05.
    heavy = (Category(10, 0.1, 0), Category(10, 0, 0.02, weight=3))
    quality = Quality(((3.0, heavy), (1.0, (Category(10, 0.05, 0),))))
    assert quality.delta == pytest.approx((3 * -0.01 + -0.05) / 4)
    assert quality.worst == pytest.approx(-0.1)


def test_changes_of_graded_items_count_by_their_size():
    lost, won = worlds.shares(0.2, -0.07, worlds.GRADED)
    assert lost + won == pytest.approx(0.2)
    # Sizes ¼, ½ and 1 are 7/12 on average.
    assert (won - lost) * 7 / 12 == pytest.approx(-0.07)
    assert worlds.shares(0.02, -0.08) == pytest.approx((0.08, 0))


@pytest.mark.parametrize(
    "category",
    [
        Category(40_000, 0.06, 0.02),
        Category(40_000, *worlds.shares(0.2, -0.04, worlds.GRADED), scale=worlds.GRADED),
        Category(40_000, 0.06, 0.02, cluster=4, correlation=0.3),
        Category(40_000, 0.06, 0.02, cluster=4, correlation=1),
        Category(40_000, 0, 0, drift=-0.04),
    ],
)
def test_what_is_drawn_has_the_truth_as_its_mean(category):
    ours, theirs = category.draw(numpy.random.default_rng(0))
    assert category.delta == pytest.approx(-0.04)
    assert (ours - theirs).mean() == pytest.approx(-0.04, abs=0.005)
    assert set(numpy.concatenate([ours, theirs])) <= {0, 0.25, 0.5, 0.75, 1} or category.drift


def test_documents_that_go_together_change_as_a_whole():
    ours, theirs = Category(400, 0.3, 0.3, cluster=4, correlation=1).draw(numpy.random.default_rng(0))
    changes = (ours - theirs).reshape(100, 4)
    assert (changes == changes[:, :1]).all()


def test_turns_have_the_true_ratio_as_their_median():
    rng = numpy.random.default_rng(0)
    drawn = [ratio for _ in range(500) for ratio in Speed(1.3, bursts=0.2).draw(rng)]
    assert numpy.median(drawn) == pytest.approx(1.3, rel=0.02)


def test_every_family_has_worlds_at_the_bound_but_those_whose_truth_is_in_the_draw():
    families = {world.family for world in worlds.worlds()}
    found = {world.family for world in worlds.worlds() if simulation.at_bound(world)}
    assert families - found == {"critical"}
    names = [(world.family, world.name) for world in worlds.worlds()]
    assert len(names) == len(set(names)), "draws are seeded by the name"


def test_worlds_at_the_bound_get_four_times_the_draws():
    at, off = quality_world(Category(50, 0.02, 0)), quality_world(Category(50, 0.0, 0))
    assert simulation.allot([at, off], 100) == {at: 80, off: 20}


# --- the report's code on them ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "verdict"),
    [
        (quality_world(Category(204, 0, 0)), Verdict.PASS),
        (quality_world(Category(180, 0, 0)), Verdict.UNDECIDED),
        (quality_world(Category(200, 0.4, 0)), Verdict.FAIL),
        # 51 documents: what is not seen to vary within a document is as good as 51 items.
        (quality_world(Category(204, 0, 0, cluster=4)), Verdict.UNDECIDED),
        (quality_world(Category(204, 0.5, 0, critical=10), gates=("critical",)), Verdict.FAIL),
        (quality_world(Category(204, 0, 0.5, critical=10), gates=("critical",)), Verdict.PASS),
        (World("test", "fast", ("speed ≥ 1.3",), (Variant("variant", speed=Speed(2, 0.01, 0.01)),)), Verdict.PASS),
        (World("test", "slow", ("speed ≥ 1.3",), (Variant("variant", speed=Speed(0.9, 0.01, 0.01)),)), Verdict.FAIL),
        (World("test", "rejected", DROP, (Variant("variant", rejected=True),)), Verdict.FAIL),
    ],
)
def test_clear_worlds_are_judged_as_they_are(world, verdict):
    assert set(verdicts(world)) == {verdict}


def test_the_truth_of_critical_items_is_that_of_the_items_that_were_asked():
    world = quality_world(Category(204, 0.1, 0, critical=10), gates=("critical",))
    found = simulation.chunk(world, 0, 20, 0)
    assert {judged.truth for judged in found} == {Truth.MEETS, Truth.VIOLATES}
    assert all((judged.verdict is Verdict.PASS) == (judged.truth is Truth.MEETS) for judged in found)


def test_a_release_is_decided_as_a_whole():
    [world, *_] = [world for world in worlds.worlds() if world.family == "decision"]
    found = {judged.variant: judged for judged in judging.judge(world, numpy.random.default_rng(2))}
    assert found["good"].truth is Truth.MEETS
    assert found["tempting"].truth is found["slow"].truth is found["rejected"].truth is Truth.VIOLATES
    assert found["tempting"].verdict is found["rejected"].verdict is Verdict.FAIL
    assert (found[judging.PICK].truth, found[judging.PICK].verdict) == (Truth.MEETS, Verdict.PASS)


def test_the_same_seed_gives_the_same_draws_in_any_chunk_and_on_any_number_of_processes():
    [world] = [world for world in worlds.worlds() if world.name == "50 items, 10% change, -3 points"]
    whole = simulation.chunk(world, 0, 60, 0)
    assert whole == simulation.chunk(world, 0, 25, 0) + simulation.chunk(world, 25, 60, 0)
    assert list(simulation.run({world: 60}, jobs=2)) == simulation.tally(world, whole)
    assert whole != simulation.chunk(world, 0, 60, 1)


# --- planted variants ------------------------------------------------------------------------------------------


def decided(variant, status, verdict, why="", gate=Verdict.PASS):
    judged = GateVerdict(
        gate=planted.QUALITY_GATE, metric="quality_delta", verdict=gate, value=0, bound=-0.02, reason="a reason"
    )
    return variant_decision(variant, verdict, [judged], status=status, why=why)


def test_a_planted_variant_must_get_its_verdict_for_its_reason():
    known = {each.name: each for each in planted.PLANTED}
    good, bad, ok, invalid = Verdict.PASS, Verdict.FAIL, Status.OK, Status.INVALID
    assert known["fp16-copy"].wrong(decided("fp16-copy", ok, good)) is None
    assert known["fp16-copy"].wrong(decided("fp16-copy", ok, Verdict.UNDECIDED)) == "UNDECIDED instead of PASS"
    assert known["int3-rtn"].wrong(decided("int3-rtn", ok, bad, gate=bad)) is None
    assert known["int3-rtn"].wrong(decided("int3-rtn", ok, bad)) == "gate quality-drop did not fail"
    assert known["int2-rtn"].wrong(decided("int2-rtn", invalid, bad, "smoke: collapsed", bad)) is None
    assert known["int2-rtn"].wrong(decided("int2-rtn", ok, bad, gate=bad)) is None
    flipped = known[planted.FLIPPED]
    assert flipped.wrong(decided(planted.FLIPPED, invalid, bad, "smoke: damaged since", bad)) is None
    assert flipped.wrong(decided(planted.FLIPPED, invalid, bad, "smoke: collapsed", bad)) == "no word of 'damaged'"
    assert flipped.wrong(decided(planted.FLIPPED, ok, bad, gate=bad)) == "its status is ok instead of invalid"


def test_flipping_changes_one_bit_and_not_the_size(tmp_path):
    weights = tmp_path / "weights"
    weights.write_bytes(bytes(100))
    planted.flip(weights)
    assert weights.read_bytes() == bytes(50) + b"\x01" + bytes(49)


def test_damaging_quantizers_are_quantizers(tmp_path):
    (tmp_path / "pipeline" / "quantizers").mkdir(parents=True)
    planted.plant(tmp_path)
    for path in (tmp_path / "pipeline" / "quantizers").iterdir():
        found: dict[str, object] = {}
        exec(compile(path.read_text(), path.name, "exec"), found)
        assert {"ENVIRONMENT", "FORMAT", "PACKAGES", "TOOLCHAIN", "Settings", "check", "quantize"} <= found.keys()
